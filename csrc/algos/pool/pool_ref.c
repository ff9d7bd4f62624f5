/* pool_ref: max_pool and avg_pool by the definition, rows of outputs at a time; see kernels/pool/pool_ref.cl. */
#include "algos/pool/pool.h"

struct pool_args pool_args_of(const struct problem *p, const struct pool_attrs *attrs)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2, front = 3 - dims;
    struct pool_args a = {
        .rows = (int64_t)x->shape.dim[0] * x->shape.dim[1],
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .ker = {1, 1, 1},
        .stride = {1, 1, 1},
        .dil = {1, 1, 1},
        .include_pad = attrs->count_include_pad,
    };
    for (int i = 0; i < dims; i++) {
        const int d = front + i;
        a.in[d] = x->shape.dim[2 + i];
        a.out[d] = y->shape.dim[2 + i];
        a.ker[d] = attrs->kernel_size.v[i];
        a.stride[d] = attrs->stride.v[i];
        a.pad[d] = attrs->padding.v[i];
        a.pad_end[d] = attrs->padding.v[dims + i];
        a.dil[d] = attrs->dilation.v[i];
    }
    a.rows *= (int64_t)a.out[0] * a.out[1];
    return a;
}

static void emit_pool(const struct problem *p, struct emit *e, bool average)
{
    struct pool_args a = pool_args_of(p, p->attrs);
    struct step *s = rows_step(e, p, "pool_ref", "main", a.rows, a.out[2], &a.pieces);
    step_define(s, "AVG", average);
    step_define(s, "VECTOR", cpu_device(p->device));
    step_define(s, "STRIDE_W", a.stride[2] <= 2 ? a.stride[2] : 0);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape) * a.ker[0] * a.ker[1] * a.ker[2]);
}

static void emit_max(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, false);
}

static void emit_avg(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, true);
}

const struct algo_def algo_max_pool_ref = {
    .name = "ref",
    .doc = "by the definition, rows of outputs at a time",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_max,
};

const struct algo_def algo_avg_pool_ref = {
    .name = "ref",
    .doc = "by the definition, rows of outputs at a time",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_avg,
};
