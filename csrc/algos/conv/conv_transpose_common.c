/* conv_transpose_common.c: what the algorithms of transposed convolutions share. */
#include "algos/conv/conv_transpose_common.h"

#include "algos/common/blocked.h"

enum { LEAST_ROWS = 8 }; /* of a block */

struct conv_args conv_transpose_args_of(const struct problem *p)
{
    struct conv_args a = conv_args_of(p);
    conv_phases_of_pixels(&a);
    return a;
}

struct conv_packing conv_transpose_packing(const struct conv_args *a, int block, int c_block)
{
    const size_t channels = (size_t)(a->c / a->groups);
    return (struct conv_packing){
        .block = block,
        .c_block = (int)round_up(channels, (size_t)c_block),
        .tap_major = true,
        .transposed = true,
    };
}

static double bytes_of(const struct operand *map)
{
    return map->present ? (double)shape_count(&map->shape) * (double)operand_elem(map) : 0.0;
}

struct conv_transpose_args conv_transpose_block(const struct conv_args *a, size_t tiles, int split_k)
{
    return (struct conv_transpose_args){
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .n = a->n,
        .c = a->c,
        .k = a->k,
        .groups = a->groups,
        .phases = conv_phases_of(a),
        .tiles = (i32)tiles,
        .split_k = split_k,
        .p0 = a->p0,
        .p1 = a->p1,
    };
}

struct conv_transpose_blocked_args conv_transpose_blocked_block(const struct problem *p,
                                                                const struct conv_args *a)
{
    return (struct conv_transpose_blocked_args){
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .n = a->n,
        .k = a->k,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .phases = conv_phases_of(a),
        .depth = conv_depth_phases_of(a),
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
}

struct step *conv_transpose_columns(struct emit *e, const struct problem *p, const char *file,
                                    const struct conv_args *a)
{
    const int rows = (int)round_up(LEAST_ROWS, (size_t)a->stride[1]);
    const size_t blocks = ceil_div((size_t)(a->out[1] + a->pad[1] % a->stride[1]), (size_t)rows),
                 wg = any_group_size(p);
    const size_t items = (size_t)a->n * (size_t)a->k * (size_t)a->out[0] * blocks * (size_t)a->out[2];
    struct step *s = emit_step(e, file, "main", ceil_div(items, wg), wg);
    step_define_id(s, "INDEX", items <= UINT32_MAX - wg ? "uint" : "ulong");
    step_define(s, "KH", a->ker[1]);
    step_define(s, "KW", a->ker[2]);
    step_define(s, "SH", a->stride[1]);
    step_define(s, "SW", a->stride[2]);
    step_define(s, "DH", a->dil[1]);
    step_define(s, "ROWS", rows);
    return s;
}

void conv_transpose_cost(struct step *s, const struct problem *p)
{
    const struct clcnn_shape *x = &p->in[0].shape;
    const double w = (double)shape_count(&p->in[1].shape);
    step_cost(s, w * x->dim[0] * (double)shape_count_from(x, 2),
              4.0 * w + bytes_of(&p->in[0]) + bytes_of(&p->out[0]) + bytes_of(&p->add));
}
