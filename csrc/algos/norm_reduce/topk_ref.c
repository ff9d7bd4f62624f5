/* topk_ref: the best elements in order; see kernels/norm_reduce/topk_ref.cl. */
#include "algos/norm_reduce/topk.h"

struct topk_args topk_args_of(const struct problem *p)
{
    const struct topk_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0];
    struct topk_args a = {.lines = {.length = x->shape.dim[attrs->dim], .count = attrs->k}};
    lines_operand(&a.lines, 0, x, &x->shape, attrs->dim);
    lines_operand(&a.lines, 1, &p->out[0], &x->shape, attrs->dim);
    lines_operand(&a.lines, 2, &p->out[1], &x->shape, attrs->dim);
    a.all = shape_count(&x->shape) / a.lines.length;
    return a;
}

void topk_operands(struct step *s, const struct problem *p)
{
    const struct topk_attrs *attrs = p->attrs;
    if (!attrs->largest)
        step_define(s, "LEAST", 1);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_write(s, p->out[1].view);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct line_args a = topk_args_of(p).lines;
    struct step *s = strided_step(e, p, "topk_ref", &a.walk, 3);
    step_define_type(s, "T", p->in[0].shape.dtype);
    topk_operands(s, p);
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
