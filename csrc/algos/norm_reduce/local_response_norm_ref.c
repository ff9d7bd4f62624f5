/* local_response_norm_ref: normalisation across channels; see kernels/norm_reduce/local_response_norm_ref.cl. */
#include "algos/common/rows.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct lrn_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct lrn_args a = {
        .rows = (int64_t)x->shape.dim[0] * x->shape.dim[1],
        .inner = shape_count_from(&x->shape, 2),
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .size = attrs->size,
        .alpha = attrs->alpha / (float)attrs->size,
        .beta = attrs->beta,
        .k = attrs->k,
    };
    struct step *s = rows_step(e, p, "local_response_norm_ref", "main", a.rows, a.inner, &a.pieces);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&x->shape) * attrs->size);
}

const struct algo_def algo_local_response_norm_ref = {
    .name = "ref",
    .doc = "squares of neighbouring channels summed for each element",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
