/* conv_transpose_common.c: what the algorithms of transposed convolutions share. */
#include "algos/conv/conv_transpose_common.h"

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

void conv_transpose_cost(struct step *s, const struct problem *p)
{
    const struct clcnn_shape *x = &p->in[0].shape;
    const double w = (double)shape_count(&p->in[1].shape), out = (double)shape_count(&p->out[0].shape);
    step_cost(s, w * x->dim[0] * (double)shape_count_from(x, 2),
              4.0 * ((double)shape_count(x) + w + out * (p->add.present ? 2.0 : 1.0)));
}
