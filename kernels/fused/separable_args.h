/* separable_args.h: argument blocks of a depthwise and a 1x1 convolution; the rules are those of args_base.h. */
#ifndef CLCNN_SEPARABLE_ARGS_H
#define CLCNN_SEPARABLE_ARGS_H

#include "common/blocked_args.h"

/* Depthwise, activation, 1x1: separable_*. Index 0 = height, 1 = width. */
struct separable_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 dw_k;                /* elements between filters of the depthwise weights */
    i32 n, c, mid, k;        /* batch, input channels, middle channels, filters */
    i32 in[2], out[2];       /* spatial sizes */
    i32 ker[2], stride[2], pad[2], dil[2];
    f32 mid_p0, mid_p1, p0, p1; /* of the activations between and at the end */
};

/* The same on channel blocks: separable_blocked. */
struct separable_blocked_args {
    struct separable_args shape;
    struct blocked_epilogue epi; /* shape.p0 and p1 are for the others */
    i32 tiles, unused;           /* of a work-item */
};

/* With a 1x1 convolution before that, of `c` channels: inverted_blocked. The rest speaks of what this makes of them. */
struct inverted_args {
    struct separable_blocked_args tail; /* tiles: not used */
    struct blocked_epilogue expand;
    i32 c, rows; /* input channels; output rows of a work-item */
};

#endif
