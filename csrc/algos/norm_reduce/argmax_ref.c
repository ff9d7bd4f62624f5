/* argmax_ref: index of the largest or smallest element; see kernels/norm_reduce/argmax_ref.cl. */
#include "algos/common/lines.h"

void lines_operand(struct line_args *a, int at, const struct operand *o, const struct clcnn_shape *x, int dim)
{
    int64_t stride[CLCNN_MAX_RANK];
    const bool lacks = o->shape.rank < x->rank;
    operand_strides(o, stride);
    a->walk.rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        const int own = d - (lacks && d > dim);
        a->walk.size[d] = d == dim ? 1 : x->dim[d];
        a->walk.stride[at].of[d] = d == dim ? 0 : stride[own];
    }
    a->step[at] = lacks ? 0 : stride[dim];
}

static void emit_arg(const struct problem *p, struct emit *e, bool least)
{
    const struct line_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct line_args a = {.length = x->shape.dim[attrs->dim], .count = 1};
    lines_operand(&a, 0, x, &x->shape, attrs->dim);
    lines_operand(&a, 1, y, &x->shape, attrs->dim);
    struct step *s = strided_step(e, p, "argmax_ref", &a.walk, 2);
    step_define_type(s, "T", x->shape.dtype);
    if (least)
        step_define(s, "LEAST", 1);
    if (attrs->select_last_index)
        step_define(s, "LAST", 1);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

static void emit_argmax(const struct problem *p, struct emit *e)
{
    emit_arg(p, e, false);
}

static void emit_argmin(const struct problem *p, struct emit *e)
{
    emit_arg(p, e, true);
}

const struct algo_def algo_argmax_ref = {
    .name = "ref",
    .doc = "a line at a time",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_argmax,
};

const struct algo_def algo_argmin_ref = {
    .name = "ref",
    .doc = "a line at a time",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_argmin,
};
