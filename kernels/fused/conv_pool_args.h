/* conv_pool_args.h: argument blocks of a convolution and the pooling after it; the rules are those of args_base.h. */
#ifndef CLCNN_CONV_POOL_ARGS_H
#define CLCNN_CONV_POOL_ARGS_H

#include "conv/conv_args.h"
#include "conv_cpu/stem_args.h"

/* Such a convolution and the maximum of windows: conv_pool_stem. stem.dst_n belongs to y. */
struct conv_pool_stem_args {
    struct conv_stem_args stem;
    i32 pooled[2], lead[2]; /* sizes of y, padding before: height, width */
    i32 window, step;       /* height of a window, and distance between two; along a row they are defines */
    i32 columns;            /* of the private row: output columns between those that no window must choose */
    i32 rows;               /* of y, of a work-item */
};

/* A convolution, its epilogue, and windows over its output that do not overlap: conv_pool_*. conv.dst_n belongs to
 * y. */
struct conv_pool_args {
    struct conv_args conv;
    i32 pooled[2]; /* sizes of y: height, width */
};

#endif
