/* conv_common.c: what the convolution algorithms share. */
#include "algos/conv/conv_common.h"
#include "conv/conv_tile_args.h"

#include <stdio.h>

struct conv_args conv_args_at(const struct problem *p, int channels, int spatial)
{
    const struct conv_attrs *at = p->attrs;
    const struct operand *x = &p->in[0], *w = &p->in[1], *y = &p->out[0];
    struct conv_args a = {
        .src_n = x->batch_stride,
        .dst_n = y->batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .w_k = w->batch_stride,
        .n = x->shape.dim[0],
        .c = x->shape.dim[channels],
        .k = y->shape.dim[channels],
        .groups = at->groups,
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .ker = {1, 1, 1},
        .stride = {1, 1, 1},
        .dil = {1, 1, 1},
        .p0 = p->p0,
        .p1 = p->p1,
    };
    const int n = x->shape.rank - 2;
    for (int i = 0; i < n; i++) {
        const int d = 3 - n + i;
        a.in[d] = x->shape.dim[spatial + i];
        a.out[d] = y->shape.dim[spatial + i];
        a.ker[d] = w->shape.dim[2 + i];
        a.stride[d] = at->stride.v[i];
        a.pad[d] = at->padding.v[i];
        a.dil[d] = at->dilation.v[i];
    }
    return a;
}

struct conv_args conv_args_of(const struct problem *p)
{
    return conv_args_at(p, 1, 2);
}

int conv_taps(const struct conv_args *a)
{
    return a->ker[0] * a->ker[1] * a->ker[2];
}

int64_t conv_map(const struct conv_args *a)
{
    return (int64_t)a->out[0] * a->out[1] * a->out[2];
}

size_t conv_pixels(const struct conv_args *a)
{
    return (size_t)a->n * (size_t)conv_map(a);
}

double conv_macs(const struct conv_args *a)
{
    return (double)conv_taps(a) * (a->c / a->groups) * a->k * (double)conv_pixels(a);
}

void conv_cost(struct step *s, const struct problem *p)
{
    const double x = shape_count(&p->in[0].shape), w = shape_count(&p->in[1].shape);
    const double y = shape_count(&p->out[0].shape);
    const double add = p->add.present ? y * (double)operand_elem(&p->add) : 0.0;
    step_cost(s, w * p->out[0].shape.dim[0] * shape_count_from(&p->out[0].shape, 2),
              x * (double)operand_elem(&p->in[0]) + 4.0 * w + y * (double)operand_elem(&p->out[0]) + add);
}

void conv_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes)
{
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, args, bytes);
    conv_cost(s, p);
}

struct conv_args conv_args_of_slices(const struct problem *p)
{
    struct conv_args a = conv_args_of(p);
    for (int d = 1; d < 3; d++)
        if (a.ker[d] != 1 || a.stride[d] != 1 || a.pad[d] != 0 || a.in[d] != a.out[d])
            return a;
    const int64_t slice = (int64_t)a.in[1] * a.in[2];
    if (!conv_is_volume(&a) || slice > INT32_MAX)
        return a;
    a.in[1] = a.in[0];
    a.out[1] = a.out[0];
    a.ker[1] = a.ker[0];
    a.stride[1] = a.stride[0];
    a.pad[1] = a.pad[0];
    a.dil[1] = a.dil[0];
    a.in[2] = a.out[2] = (int32_t)slice;
    a.in[0] = a.out[0] = a.ker[0] = a.stride[0] = a.dil[0] = 1;
    a.pad[0] = 0;
    return a;
}

bool conv_is_2d(const struct problem *p)
{
    return p->in[0].shape.rank <= 4;
}

bool conv_is_volume(const struct conv_args *a)
{
    return a->in[0] > 1 || a->out[0] > 1 || a->ker[0] > 1;
}

bool conv_is_pointwise(const struct conv_args *a)
{
    for (int d = 0; d < 3; d++)
        if (a->ker[d] != 1 || a->stride[d] != 1 || a->pad[d] != 0 || a->in[d] != a->out[d])
            return false;
    return true;
}

bool conv_reads_inside(const struct conv_args *a)
{
    for (int d = 0; d < 3; d++)
        if (a->ker[d] != 1 || a->pad[d] != 0 || (a->out[d] - 1) * a->stride[d] >= a->in[d])
            return false;
    return true;
}

struct conv_attrs conv_pointwise_attrs(int spatial)
{
    struct conv_attrs a = {.groups = 1};
    a.stride.n = a.dilation.n = a.output_padding.n = spatial;
    a.padding.n = 2 * spatial;
    for (int i = 0; i < spatial; i++)
        a.stride.v[i] = a.dilation.v[i] = 1;
    return a;
}

bool conv_is_dense(const struct conv_args *a)
{
    return a->stride[1] == 1 && a->stride[2] == 1 && a->dil[1] == 1 && a->dil[2] == 1;
}

bool conv_is_depthwise(const struct conv_args *a)
{
    return a->c == a->groups;
}

bool conv_depthwise_applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, conv_is_depthwise(&a), "each group must have one input channel");
    PREFER(why, a.k / a.c <= 4, "many filters share each channel: register tiles over filters reuse it");
    return true;
}

int conv_blocks(const struct conv_args *a, int block)
{
    return a->groups * (int)ceil_div((size_t)(a->k / a->groups), (size_t)block);
}

int conv_lane_span(int groups, int each, int lanes)
{
    int most = 0;
    for (int g = 0; g < groups && g < lanes; g++) /* lanes repeat after that */
        if (g * each % lanes > most)
            most = g * each % lanes;
    return most + each;
}

bool conv_groups_in_parts(const struct conv_args *a, int block)
{
    return a->groups > 1 && (a->c / a->groups % block != 0 || a->k / a->groups % block != 0);
}

static struct conv_pack_args pack_args_of(const struct conv_args *a, struct conv_packing packing)
{
    struct conv_pack_args args = {
        .w_k = a->w_k,
        .groups = a->groups,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .taps = conv_taps(a),
        .block = packing.block,
        .lanes = packing.lanes > 1 ? packing.lanes : 1,
        .turned = packing.turned,
    };
    args.c_block = packing.c_block ? packing.c_block : packing.tap_major ? args.c : 1;
    const int filters = conv_lane_span(args.groups, args.kg, args.lanes),
              channels = conv_lane_span(args.groups, args.c, args.lanes);
    args.k_blocks = (int)ceil_div((size_t)filters, (size_t)args.block);
    args.c_blocks = (int)ceil_div((size_t)channels, (size_t)args.c_block);
    return args;
}

static size_t packed_bytes(const struct conv_pack_args *args)
{
    return sizeof(float) * (size_t)args->groups * (size_t)args->k_blocks * (size_t)args->block *
           (size_t)args->c_blocks * (size_t)args->c_block * (size_t)args->taps;
}

size_t conv_packed_bytes(const struct conv_args *a, struct conv_packing packing)
{
    const struct conv_pack_args args = pack_args_of(a, packing);
    return packed_bytes(&args);
}

int conv_turned(const struct problem *p)
{
    return p->in[1].turned ? p->in[1].shape.dim[1] : 0;
}

int emit_conv_packed(struct emit *e, const struct problem *p, const struct conv_args *a,
                     struct conv_packing packing)
{
    packing.turned = conv_turned(p);
    const struct conv_pack_args args = pack_args_of(a, packing);
    const size_t bytes = packed_bytes(&args);
    const size_t rows = bytes / sizeof(float) / (size_t)packing.block;
    char name[96];
    const char *file = packing.transposed ? "conv_transpose_pack" : "conv_pack";
    snprintf(name, sizeof name, "%s g%d k%d c%d t%d b%d c%d l%d w%d u%d", file, args.groups, args.kg, args.c,
             args.taps, args.block, args.c_block, args.lanes, packing.points, args.turned);
    struct step *setup;
    const int view =
        emit_packed(e, &p->in[1], name, bytes, file, "main", ceil_div(rows, GROUP_SIZE), GROUP_SIZE, &setup);
    if (setup) {
        if (packing.points)
            step_define(setup, "POINTS", packing.points);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

size_t conv_packing_workspace(const struct problem *p, const struct conv_args *a, struct conv_packing packing)
{
    return p->in[1].constant ? 0 : conv_packed_bytes(a, packing);
}

bool conv_skips_zeros(const struct problem *p, struct emit *e, float largest)
{
    return p->skip && emit_constant_within(e, &p->in[1], largest);
}

size_t conv_split_k_bytes(const struct conv_args *a, int split_k)
{
    return split_k == 1 ? 0 : sizeof(float) * (size_t)split_k * (size_t)a->k * conv_pixels(a);
}

static void emit_reduce(struct emit *e, const struct problem *p, const struct conv_args *a, int split_k,
                        int view)
{
    const struct conv_split_k_args args = {
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .map = conv_map(a),
        .n = a->n,
        .k = a->k,
        .split_k = split_k,
        .p0 = a->p0,
        .p1 = a->p1,
    };
    const size_t results = conv_pixels(a) * (size_t)a->k;
    const size_t wg = any_group_size(p);
    struct step *s = emit_step(e, "conv_sum_parts", "main", ceil_div(results, wg), wg);
    step_read(s, view);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, &args, sizeof args);
    step_cost(s, 0.0, 4.0 * (double)results * (split_k + 1));
}

void emit_conv_split_k(struct emit *e, struct step *s, const struct problem *p, const struct conv_args *a,
                       int split_k, int view, const void *args, size_t bytes)
{
    const struct problem plain = {.act = ACT_none};
    if (split_k > 1) {
        step_epilogue(s, &plain, NULL);
        step_write(s, view);
    } else {
        step_epilogue(s, p, &p->in[2]);
        step_write_map(s, &p->out[0]);
    }
    step_args(s, args, bytes);
    if (split_k > 1)
        emit_reduce(e, p, a, split_k, view);
}

void emit_filter_grad_sum(struct emit *e, const struct problem *p, const struct conv_args *a, int split_k,
                          int parts)
{
    const struct problem plain = {.act = ACT_none};
    const int positions = a->c / a->groups * conv_taps(a);
    const struct conv_split_k_args args = {/* filters as images of one map */
                                           .dst_n = a->w_k,
                                           .map = positions,
                                           .n = a->k,
                                           .k = 1,
                                           .split_k = split_k};
    const size_t results = (size_t)a->k * (size_t)positions, wg = any_group_size(p);
    struct step *s = emit_step(e, "conv_sum_parts", "main", ceil_div(results, wg), wg);
    step_read(s, parts);
    step_epilogue(s, &plain, NULL);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    step_cost(s, 0.0, 4.0 * (double)results * (split_k + 1));
}
