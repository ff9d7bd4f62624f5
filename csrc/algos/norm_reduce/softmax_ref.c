/* softmax_ref: softmax and log_softmax along any dimension; see kernels/norm_reduce/softmax_ref.cl. */
#include "algos/common/rows.h"

static struct softmax_args args_of(const struct problem *p)
{
    const struct dim_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int rank = x->shape.rank, dim = attrs->dim;
    struct softmax_args a = {.rows = 1, .inner = 1, .middle = 1, .x_step = 1, .y_step = 1, .length = 1};
    if (rank == 0) /* a single number */
        return a;
    int64_t xs[CLCNN_MAX_RANK], ys[CLCNN_MAX_RANK];
    operand_strides(x, xs);
    operand_strides(y, ys);
    a.length = x->shape.dim[dim];
    a.inner = shape_count_from(&x->shape, dim + 1);
    a.x_step = xs[dim];
    a.y_step = ys[dim];
    if (dim > 0) {
        a.x_n = xs[0];
        a.y_n = ys[0];
        a.middle_step = a.length * a.inner;
        for (int d = 1; d < dim; d++)
            a.middle *= x->shape.dim[d];
        a.rows = x->shape.dim[0] * a.middle;
    }
    return a;
}

static void emit_softmax(const struct problem *p, struct emit *e, bool logarithm)
{
    struct softmax_args a = args_of(p);
    struct step *s;
    if (a.inner == 1 && a.x_step == 1 && a.y_step == 1)
        s = lanes_step(e, p, "softmax_ref", "rows", a.rows, a.length);
    else
        s = rows_step(e, p, "softmax_ref", "columns", a.rows, a.inner, &a.pieces);
    step_define(s, "LOG", logarithm);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

static void emit_plain(const struct problem *p, struct emit *e)
{
    emit_softmax(p, e, false);
}

static void emit_log(const struct problem *p, struct emit *e)
{
    emit_softmax(p, e, true);
}

const struct algo_def algo_softmax_ref = {
    .name = "ref",
    .doc = "largest value taken off first",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_plain,
};

const struct algo_def algo_log_softmax_ref = {
    .name = "ref",
    .doc = "largest value taken off first",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_log,
};
