/* sequence_shared: all steps of a recurrent layer in one launch, with the weights in the registers of all groups; see
 * kernels/matmul/sequence_shared.cl. */
#include <stdio.h>

#include "algos/common/rows.h"
#include "algos/matmul/sequence.h"

enum {
    GROUP = 32 * SEQUENCE_UNITS,
    TOGETHER = 128,
    WORDS = 6, /* of four bytes, before those of the state and as far as to a boundary of eight */
    AGAIN = 3, /* the one that tells that a group waited in vain */
    MOST_LOOKS = 1 << 20,
};

static size_t depth_of(const struct problem *p)
{
    return round_up((size_t)p->in[1].shape.dim[1], TOGETHER);
}

static struct sequence_rows rows_of(const struct problem *p)
{
    const struct clcnn_shape *h = &p->in[1].shape;
    return sequence_shared_rows(h->dim[1], h->dim[0], (int64_t)device_units(p->device));
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, device_traits(p->device).waiting_groups, "groups may not wait for each other here");
    REQUIRE(why, rows_of(p).parts > 0, "the groups that run at once have no room for its weights and rows");
    return true;
}

static size_t packed_bytes(const struct problem *p, const struct cell *c)
{
    return sizeof(float) * (size_t)c->gates * (size_t)p->in[1].shape.dim[1] * depth_of(p);
}

static int emit_weights(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct operand *w = &p->in[c->w];
    const struct sequence_args args = sequence_args_of(p, c);
    const size_t bytes = packed_bytes(p, c);
    struct step *s;
    char name[64];
    snprintf(name, sizeof name, "sequence shared g%d h%d", c->gates, args.size);
    const int view =
        emit_packed(e, w, name, bytes, "sequence_shared", "pack", (size_t)args.size, (size_t)GROUP, &s);
    if (s) {
        step_define(s, "DEPTH", (int)depth_of(p));
        step_define(s, "GATES", c->gates);
        step_read(s, w->view);
        step_write(s, view);
        step_args(s, &args, sizeof args);
        step_cost(s, 0.0, 2.0 * (double)bytes);
        s->alone = true;
    }
    return view;
}

/* The second step does nothing but where a group of the first one waited in vain. */
static void emit_shared(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct clcnn_shape *h = &p->in[c->h].shape;
    const struct sequence_rows rows = rows_of(p);
    const size_t n = (size_t)h->dim[0], tiles = ceil_div(n, (size_t)(rows.at_once * rows.parts));
    const size_t across = ceil_div((size_t)h->dim[1], SEQUENCE_UNITS);
    const int w = emit_weights(p, e, c), words = emit_counters(e, WORDS + 2 * 2 * n * depth_of(p));
    struct step *s = emit_step(e, "sequence_shared", "main", across * tiles, (size_t)GROUP);
    step_define(s, "DEPTH", (int)depth_of(p));
    step_define(s, "TB", rows.at_once);
    step_define(s, "PARTS", rows.parts);
    step_define(s, "BOUND", MOST_LOOKS);
    sequence_finish(s, p, c, w, tiles * packed_bytes(p, c));
    step_update(s, words);
    s->alone = true;
    emit_only_if(e, words, AGAIN);
    step_cost(sequence_emit_ref(p, e, c), 0.0, 0.0);
    emit_only_if(e, VIEW_NONE, 0);
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
    emit_shared(p, e, &cell_lstm);
}

static void gru_emit(const struct problem *p, struct emit *e)
{
    emit_shared(p, e, &cell_gru);
}

#define SEQUENCE_SHARED(op)                                                   \
    const struct algo_def algo_##op##_shared = {                              \
        .name = "shared",                                                     \
        .doc = "all steps in one launch, weights in registers of all groups", \
        .devices = DEVICES_GPU,                                               \
        .error = ERROR_STRICT,                                                \
        .deterministic = true,                                                \
        .applicable = applicable,                                             \
        .workspace = op##_workspace,                                          \
        .emit = op##_emit,                                                    \
    }
SEQUENCE_SHARED(lstm);
SEQUENCE_SHARED(gru);
