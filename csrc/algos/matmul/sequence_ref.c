/* lstm and gru by the definition: a work-item walks the steps of a row; see kernels/matmul/sequence_ref.cl. */
#include <stdio.h>

#include "algos/common/rows.h"
#include "algos/matmul/sequence.h"

struct sequence_args sequence_args_of(const struct problem *p, const struct cell *c)
{
    const struct cell_args a = cell_args_of(p, c);
    return (struct sequence_args){
        .x_n = a.x_n,
        .h_n = a.h_n,
        .c_n = a.c_n,
        .y_n = a.y_n,
        .d_n = a.d_n,
        .w_n = a.w_n,
        .n = a.n,
        .size = a.size,
        .steps = p->in[c->x].shape.dim[0] / a.n,
        .reverse = ((const struct sequence_attrs *)p->attrs)->reverse,
    };
}

void sequence_finish(struct step *s, const struct problem *p, const struct cell *c, int w, size_t bytes)
{
    const struct sequence_args args = sequence_args_of(p, c);
    const double macs = (double)args.steps * args.n * c->gates * args.size * args.size;
    const int64_t moved = shape_count(&p->in[c->x].shape) + shape_count(&p->out[0].shape);
    cell_operands(s, p, c, w);
    step_args(s, &args, sizeof args);
    step_cost(s, macs, (double)bytes + sizeof(float) * (double)moved);
}

int sequence_weights(const struct problem *p, struct emit *e, const struct cell *c,
                     const struct sequence_packing *packing)
{
    const struct operand *w = &p->in[c->w];
    const struct sequence_args args = sequence_args_of(p, c);
    struct step *s;
    char name[64];
    snprintf(name, sizeof name, "%s g%d h%d", packing->file, c->gates, args.size);
    const int view = emit_packed(e, w, name, packing->bytes, packing->file, "pack", packing->groups,
                                 packing->group_size, &s);
    if (s) {
        step_define(s, "DEPTH", packing->depth);
        step_define(s, "GATES", c->gates);
        step_read(s, w->view);
        step_write(s, view);
        step_args(s, &args, sizeof args);
        step_cost(s, 0.0, 2.0 * (double)packing->bytes);
        s->alone = true;
    }
    return view;
}

struct step *sequence_emit_ref(const struct problem *p, struct emit *e, const struct cell *c)
{
    const struct operand *w = &p->in[c->w];
    struct step *s = emit_step(e, "sequence_ref", "main", (size_t)p->in[c->h].shape.dim[0], 1);
    sequence_finish(s, p, c, w->view, sizeof(float) * (size_t)shape_count(&w->shape));
    return s;
}

static void lstm_emit(const struct problem *p, struct emit *e)
{
    sequence_emit_ref(p, e, &cell_lstm);
}

static void gru_emit(const struct problem *p, struct emit *e)
{
    sequence_emit_ref(p, e, &cell_gru);
}

#define SEQUENCE_REF(op)                                            \
    const struct algo_def algo_##op##_ref = {                       \
        .name = "ref",                                              \
        .doc = "by the definition, one work-item a row of a batch", \
        .error = ERROR_STRICT,                                      \
        .deterministic = true,                                      \
        .applicable = rows_always,                                  \
        .emit = op##_emit,                                          \
    }
SEQUENCE_REF(lstm);
SEQUENCE_REF(gru);
