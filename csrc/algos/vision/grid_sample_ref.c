/* grid_sample_ref: sampling by a grid; see kernels/vision/grid_sample_ref.cl. */
#include "algos/vision/grid.h"

struct grid_args grid_args_of(const struct problem *p)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2;
    struct grid_args a = {
        .x_n = x->batch_stride,
        .grid_n = p->in[1].batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
    };
    for (int i = 0; i < dims; i++) {
        a.in[3 - dims + i] = x->shape.dim[2 + i];
        a.out[3 - dims + i] = y->shape.dim[2 + i];
    }
    a.rows = (int64_t)x->shape.dim[0] * a.c * a.out[0] * a.out[1];
    return a;
}

void grid_step(struct step *s, const struct problem *p, const struct grid_args *a)
{
    const struct grid_sample_attrs *attrs = p->attrs;
    step_define(s, "KIND", attrs->mode);
    step_define(s, "PADDING", attrs->padding_mode);
    step_define(s, "ALIGN", attrs->align_corners);
    step_define(s, "DIMS", p->in[0].shape.rank - 2);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct grid_args a = grid_args_of(p);
    struct step *s = rows_step(e, p, "grid_sample_ref", "main", a.rows, a.out[2], &a.pieces);
    grid_step(s, p, &a);
}

const struct algo_def algo_grid_sample_ref = {
    .name = "ref",
    .doc = "each output by itself",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
