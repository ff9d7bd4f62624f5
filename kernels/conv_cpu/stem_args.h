/* stem_args.h: argument blocks of convolutions of few channels, from row-major maps to channel blocks; the rules are
 * those of args_base.h. */
#ifndef CLCNN_STEM_ARGS_H
#define CLCNN_STEM_ARGS_H

#include "common/blocked_args.h"

/* 2-D convolution from row-major maps of few channels to blocked ones: conv_stem. Index 0 = height, 1 = width. */
struct conv_stem_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 c, k;                /* input channels, filters */
    i32 in[2], out[2], ker[2];
    i32 stride, pad[2], dil[2]; /* stride of height; that of width is a define */
    i32 segments, per_item;     /* work-items of an output row, tiles of a work-item */
    struct blocked_epilogue epi;
    i32 unused;
};

#endif
