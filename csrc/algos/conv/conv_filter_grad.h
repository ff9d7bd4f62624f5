/* conv_filter_grad.h: what the algorithms for the gradient of filters share. */
#ifndef CLCNN_ALGOS_CONV_FILTER_GRAD_H
#define CLCNN_ALGOS_CONV_FILTER_GRAD_H

#include "algos/conv/conv_common.h"

/* The arguments of the convolution that the gradient belongs to: x is its input, dy its output. */
static inline struct conv_args conv_filter_grad_args(const struct problem *p)
{
    const struct operand operands[] = {p->in[0], p->out[0]};
    struct problem conv = *p;
    conv.in = operands;
    conv.out = &p->in[1];
    return conv_args_of(&conv);
}

#endif
