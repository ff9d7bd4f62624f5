/* softmax_vector: softmax and log_softmax in vectors, for CPU devices; see kernels/norm_reduce/softmax_vector.cl. */
#include "algos/norm_reduce/rows_norm.h"

#define TILE 4 /* vectors of columns, as in the kernel */

static struct softmax_vector_args args_of(const struct problem *p)
{
    const struct dim_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int rank = x->shape.rank, dim = attrs->dim;
    struct softmax_vector_args a = {
        .rows = 1, .inner = 1, .middle = 1, .x_step = 1, .y_step = 1, .length = 1};
    int64_t xs[CLCNN_MAX_RANK], ys[CLCNN_MAX_RANK];
    if (rank == 0) /* a single number */
        return a;
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

static bool in_rows(const struct softmax_vector_args *a)
{
    return a->inner == 1 && a->x_step == 1 && a->y_step == 1;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_VECTORS);
    const struct softmax_vector_args a = args_of(p);
    REQUIRE(why, in_rows(&a) || a.inner >= p->block, FEW_NEIGHBOURS);
    return true;
}

static void emit_softmax(const struct problem *p, struct emit *e, bool logarithm)
{
    struct softmax_vector_args a = args_of(p);
    const bool rows = in_rows(&a);
    a.run = rows_run(p, a.rows, a.length);
    a.tiles = (int64_t)ceil_div(ceil_div((size_t)a.inner, (size_t)p->block), TILE);
    const size_t groups = rows ? ceil_div((size_t)a.rows, (size_t)a.run) : (size_t)(a.rows * a.tiles);
    struct step *s = emit_step(e, "softmax_vector", rows ? "rows" : "columns", groups, 1);
    step_define(s, "LOG", logarithm);
    step_define(s, "V", p->block);
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

const struct algo_def algo_softmax_vector = {
    .name = "vector",
    .doc = "vectors, with exponentials of its own",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit_plain,
};

const struct algo_def algo_log_softmax_vector = {
    .name = "vector",
    .doc = "vectors, with exponentials of its own",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit_log,
};
