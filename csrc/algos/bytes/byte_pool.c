/* byte_pool: the maximum of windows, the sum of maps, and maps times a number a channel, of bytes; see
 * kernels/bytes/byte_max_pool.cl, kernels/bytes/byte_mean.cl and kernels/bytes/byte_scale.cl. */
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

static void emit_scale(const struct problem *p, struct emit *e)
{
    const struct byte_mean_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *scale = &p->in[1];
    const size_t parts = (size_t)x->shape.dim[0] * (size_t)x->shape.dim[1],
                 pixels = (size_t)x->shape.dim[2] * (size_t)x->shape.dim[3];
    const struct byte_scale_args a = {
        .src_n = x->batch_stride,
        .dst_n = p->out[0].batch_stride,
        .scale_n = scale->shape.dim[0] > 1 ? scale->batch_stride : 0,
        .n = x->shape.dim[0],
        .blocks = x->shape.dim[1],
        .c = scale->shape.dim[1],
        .pixels = (i32)pixels,
        .run = 4 * bytes_run(p, parts, ceil_div(pixels, 4)),
        .x_zero = attrs->x_zero,
        .zero = attrs->y_zero,
        .factor = attrs->factor,
    };
    struct step *s = emit_step(e, "byte_scale", "main", parts * ceil_div(pixels, (size_t)a.run), 1);
    step_define(s, "DOTS", device_traits(p->device).byte_products);
    step_read(s, x->view);
    step_define(s, "SHIFT", p->in[2].present);
    step_read(s, scale->view);
    step_read(s, p->in[2].present ? p->in[2].view : VIEW_NONE);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, 2.0 * (double)shape_count(&x->shape));
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

const struct algo_def algo_byte_scale_ref = {
    .name = "ref",
    .doc = "vectors of 16 channels",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = bytes_always,
    .emit = emit_scale,
};
