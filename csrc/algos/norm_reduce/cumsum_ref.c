/* cumsum_ref: running sums; see kernels/norm_reduce/cumsum_ref.cl. */
#include "algos/common/lines.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct line_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct line_args a = {
        .length = x->shape.dim[attrs->dim],
        .count = x->shape.dim[attrs->dim],
        .exclusive = attrs->exclusive,
        .reverse = attrs->reverse,
    };
    lines_operand(&a, 0, x, &x->shape, attrs->dim);
    lines_operand(&a, 1, y, &x->shape, attrs->dim);
    struct step *s = strided_step(e, p, "cumsum_ref", &a.walk, 2);
    step_define_type(s, "T", x->shape.dtype);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_cumsum_ref = {
    .name = "ref",
    .doc = "a line at a time, rounding errors carried along",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
