/* conv_pool_common.c: a conv_pool problem as the convolution and the pooling that it stands for, and what the
 * fused kernels share. */
#include "algos/fused/conv_pool_common.h"
#include "conv_cpu/conv_cpu_args.h"

void conv_pool_parts(const struct problem *p, struct conv_pool *out)
{
    const struct conv_pool_attrs *at = p->attrs;
    *out = (struct conv_pool){
        .mid = {.shape = p->out[0].shape, .view = VIEW_NONE, .present = true},
        .conv = *p,
        .pool = *p,
    };
    for (int i = 0; i < at->middle.n; i++)
        out->mid.shape.dim[2 + i] = at->middle.v[i];
    out->mid.batch_stride = shape_count_from(&out->mid.shape, 1);

    out->conv.op = &op_conv;
    out->conv.attrs = &at->conv;
    out->conv.out = &out->mid;
    out->pool.op = at->average ? &op_avg_pool : &op_max_pool;
    out->pool.attrs = &at->pool;
    out->pool.in = &out->mid;
    out->pool.n_in = 1;
    out->pool.add = (struct operand){.view = VIEW_NONE};
    out->pool.act = ACT_none;
    out->pool.zeros = (struct clcnn_zeros){0};
}

struct conv_pool_args conv_pool_args_of(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    const struct clcnn_shape *y = &p->out[0].shape;
    struct conv_pool_args a = {.conv = conv_args_of(&parts.conv), .pooled = {y->dim[2], y->dim[3]}};
    a.conv.dst_n = p->out[0].batch_stride;
    return a;
}

int conv_pool_window(const struct problem *p, int dim)
{
    return ((const struct conv_pool_attrs *)p->attrs)->pool.kernel_size.v[dim];
}

bool conv_pool_same_conv(const struct problem *p, const struct algo_def *algo)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return algo_preferred(&parts.conv) == algo;
}

bool conv_pool_side_by_side(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return pool_side_by_side(parts.pool.attrs, &parts.mid.shape, &p->out[0].shape);
}

bool conv_pool_two_by_two(const struct problem *p, struct why *why)
{
    REQUIRE(why, conv_pool_side_by_side(p), NOT_SIDE_BY_SIDE);
    REQUIRE(why, conv_pool_window(p, 0) == 2 && conv_pool_window(p, 1) == 2, "tiles hold windows of 2x2");
    return true;
}

int conv_pool_kind(const struct problem *p)
{
    return ((const struct conv_pool_attrs *)p->attrs)->average ? POOL_MEAN : POOL_MAX;
}

void conv_pool_cost(struct step *s, const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    const double x = shape_count(&p->in[0].shape), w = shape_count(&p->in[1].shape);
    const double y = shape_count(&p->out[0].shape), middle = shape_count(&parts.mid.shape);
    step_cost(s, middle * shape_count_from(&p->in[1].shape, 1),
              4.0 * (x + w + y + (p->add.present ? middle : 0.0)));
}

struct step *emit_conv_pool(struct emit *e, const struct problem *p, const char *file, size_t groups,
                            size_t group_size, struct conv_packing packing)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    const int packed = emit_conv_packed(e, p, &a.conv, packing);
    struct step *s = emit_step(e, file, "main", groups, group_size);
    conv_pool_step(s, p, packed, &a, sizeof a);
    return s;
}

void conv_pool_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes)
{
    const int height = conv_pool_window(p, 0), width = conv_pool_window(p, 1);
    step_define(s, "PH", height);
    step_define(s, "PW", width);
    step_define(s, "AVG", ((const struct conv_pool_attrs *)p->attrs)->average);
    step_read(s, p->in[0].view);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, args, bytes);
    conv_pool_cost(s, p);
}

size_t conv_pool_packing_workspace(const struct problem *p, struct conv_packing packing)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    return conv_packing_workspace(p, &a.conv, packing);
}
