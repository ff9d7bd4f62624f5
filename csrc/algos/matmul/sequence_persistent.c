/* sequence_persistent: all steps of a recurrent layer in one launch, with the weights in registers; see
 * kernels/matmul/sequence_persistent.cl. */
#include <stdio.h>

#include "algos/matmul/sequence.h"

enum { PARTS = 4, TOGETHER = 16, MOST_ROWS = 8 /* of a group */ };

static size_t depth_of(const struct problem *p)
{
    return round_up((size_t)p->in[1].shape.dim[1], TOGETHER);
}

/* Local memory: the state, and parts of the sums of four gates. */
static size_t local_bytes(size_t depth, size_t rows)
{
    return sizeof(float) * rows * depth * (1 + PARTS * 4);
}

/* Rows of a group: as few as they can be while each compute unit has as few groups one after the other as it can. */
static int rows_of(const struct problem *p)
{
    const size_t n = (size_t)p->in[1].shape.dim[0], units = p->device->compute_units;
    size_t best = 1;
    for (size_t rows = 2; rows <= MOST_ROWS && local_bytes(depth_of(p), rows) <= p->device->local_mem_bytes;
         rows *= 2)
        if (ceil_div(ceil_div(n, rows), units) < ceil_div(ceil_div(n, best), units))
            best = rows;
    return (int)best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const size_t gates = (size_t)p->in[0].shape.dim[1] / (size_t)p->in[1].shape.dim[1];
    REQUIRE(why, gates * depth_of(p) * depth_of(p) <= SEQUENCE_MOST_WEIGHTS,
            "its weights would not fit registers");
    REQUIRE(why, PARTS * depth_of(p) <= p->device->max_group_size,
            "a group of this device cannot have all units");
    return true;
}

static size_t packed_bytes(const struct problem *p, const struct cell *c)
{
    return sizeof(float) * (size_t)c->gates * depth_of(p) * depth_of(p);
}

static int emit_weights(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct operand *w = &p->in[c->w];
    const struct sequence_args args = sequence_args_of(p, c);
    const int depth = (int)depth_of(p);
    const size_t bytes = packed_bytes(p, c);
    struct step *s;
    char name[64];
    snprintf(name, sizeof name, "sequence g%d h%d", c->gates, args.size);
    const int view = emit_packed(e, w, name, bytes, "sequence_persistent", "pack", (size_t)depth,
                                 (size_t)(PARTS * depth), &s);
    if (s) {
        step_define(s, "DEPTH", depth);
        step_define(s, "GATES", c->gates);
        step_read(s, w->view);
        step_write(s, view);
        step_args(s, &args, sizeof args);
        step_cost(s, 0.0, 2.0 * (double)bytes);
        s->alone = true;
    }
    return view;
}

static void emit_persistent(const struct problem *p, struct emit *e, const struct cell *c)
{
    const int depth = (int)depth_of(p), rows = rows_of(p), w = emit_weights(p, e, c);
    const size_t groups = ceil_div((size_t)p->in[c->h].shape.dim[0], (size_t)rows);
    struct step *s = emit_step(e, "sequence_persistent", "main", groups, (size_t)(PARTS * depth));
    step_define(s, "DEPTH", depth);
    step_define(s, "TB", rows);
    sequence_finish(s, p, c, w, (double)groups * packed_bytes(p, c));
    s->alone = true; /* a chain's other kernels would get as many registers */
}

static size_t workspace_of(const struct problem *p, const struct cell *c)
{
    return p->in[c->w].constant ? 0 : packed_bytes(p, c);
}

static size_t lstm_workspace(const struct problem *p)
{
    return workspace_of(p, &cell_lstm);
}

static size_t gru_workspace(const struct problem *p)
{
    return workspace_of(p, &cell_gru);
}

static void lstm_emit(const struct problem *p, struct emit *e)
{
    emit_persistent(p, e, &cell_lstm);
}

static void gru_emit(const struct problem *p, struct emit *e)
{
    emit_persistent(p, e, &cell_gru);
}

#define SEQUENCE_PERSISTENT(op)                                               \
    const struct algo_def algo_##op##_persistent = {                          \
        .name = "persistent",                                                 \
        .doc = "all steps in one launch, weights in registers of each group", \
        .devices = DEVICES_GPU,                                               \
        .error = ERROR_STRICT,                                                \
        .deterministic = true,                                                \
        .applicable = applicable,                                             \
        .workspace = op##_workspace,                                          \
        .emit = op##_emit,                                                    \
    }
SEQUENCE_PERSISTENT(lstm);
SEQUENCE_PERSISTENT(gru);
