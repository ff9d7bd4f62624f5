/* max_unpool_ref: zeros, then values at their places; see kernels/pool/max_unpool_ref.cl. */
#include "algos/common/rows.h"
#include "pool/pool_args.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand *x = &p->in[0], *indices = &p->in[1], *y = &p->out[0];
    const int64_t items = x->shape.dim[0];
    struct unpool_args a = {
        .rows = items,
        .inner = shape_count_from(&y->shape, 1),
        .x_n = x->batch_stride,
        .i_n = indices->batch_stride,
        .y_n = y->batch_stride,
        .size = shape_count_from(&y->shape, 1),
        .count = shape_count(&y->shape),
    };
    struct step *fill = rows_step(e, p, "max_unpool_ref", "fill", a.rows, a.inner, &a.pieces);
    step_write(fill, y->view);
    step_args(fill, &a, sizeof a);
    step_cost(fill, 0, (double)shape_bytes(&y->shape));

    a.inner = shape_count_from(&x->shape, 1);
    struct step *s = rows_step(e, p, "max_unpool_ref", "main", a.rows, a.inner, &a.pieces);
    if (indices->shape.dtype != CLCNN_INT64)
        step_define_type(s, "I", indices->shape.dtype);
    step_read(s, x->view);
    step_read(s, indices->view);
    step_update(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_max_unpool_ref = {
    .name = "ref",
    .doc = "zeros, then each value to its place",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
