/* byte_pool: the maximum of windows, and the sum of maps, of bytes; see kernels/bytes/byte_max_pool.cl and
 * kernels/bytes/byte_mean.cl. */
#include "algos/bytes/byte_common.h"

static struct byte_pool_args args_of(const struct problem *p)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    return (struct byte_pool_args){
        .src_n = x->batch_stride,
        .dst_n = y->batch_stride,
        .n = x->shape.dim[0],
        .blocks = x->shape.dim[1],
        .in = {x->shape.dim[2], x->shape.dim[3]},
        .out = {y->shape.dim[2], y->shape.dim[3]},
    };
}

static void finish(struct step *s, const struct problem *p, const struct byte_pool_args *a)
{
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    step_cost(s, 0.0, (double)shape_count(&p->in[0].shape) + (double)shape_count(&p->out[0].shape));
}

static void emit_max(const struct problem *p, struct emit *e)
{
    const struct pool_attrs *attrs = p->attrs;
    struct byte_pool_args a = args_of(p);
    const size_t parts = (size_t)a.n * (size_t)a.blocks;
    for (int d = 0; d < 2; d++) {
        a.ker[d] = attrs->kernel_size.v[d];
        a.stride[d] = attrs->stride.v[d];
        a.pad[d] = attrs->padding.v[d];
        a.dil[d] = attrs->dilation.v[d];
    }
    a.rows = bytes_run(p, parts, (size_t)a.out[0]);
    finish(emit_step(e, "byte_max_pool", "main", parts * ceil_div((size_t)a.out[0], (size_t)a.rows), 1), p,
           &a);
}

static void emit_mean(const struct problem *p, struct emit *e)
{
    const struct byte_mean_attrs *attrs = p->attrs;
    struct byte_pool_args a = args_of(p);
    a.x_zero = attrs->x_zero;
    a.factor = attrs->factor;
    a.zero = attrs->y_zero;
    finish(emit_step(e, "byte_mean", "main", (size_t)a.n * (size_t)a.blocks, 1), p, &a);
}

const struct algo_def algo_byte_max_pool_ref = {
    .name = "ref",
    .doc = "vectors of 16 channels",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_max,
};

const struct algo_def algo_byte_mean_ref = {
    .name = "ref",
    .doc = "vectors of 16 channels",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_mean,
};
