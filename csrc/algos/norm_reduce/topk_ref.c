/* topk_ref: the best elements in order; see kernels/norm_reduce/topk_ref.cl. */
#include "algos/common/lines.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct topk_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0];
    struct line_args a = {.length = x->shape.dim[attrs->dim], .count = attrs->k};
    lines_operand(&a, 0, x, &x->shape, attrs->dim);
    lines_operand(&a, 1, &p->out[0], &x->shape, attrs->dim);
    lines_operand(&a, 2, &p->out[1], &x->shape, attrs->dim);
    struct step *s = strided_step(e, p, "topk_ref", &a.walk, 3);
    step_define_type(s, "T", x->shape.dtype);
    if (!attrs->largest)
        step_define(s, "LEAST", 1);
    step_read(s, x->view);
    step_write(s, p->out[0].view);
    step_write(s, p->out[1].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_topk_ref = {
    .name = "ref",
    .doc = "a line at a time, one pass a result",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
