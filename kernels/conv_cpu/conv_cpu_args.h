/* conv_cpu_args.h: argument blocks of convolutions on channel blocks; the rules are those of args_base.h. */
#ifndef CLCNN_CONV_CPU_ARGS_H
#define CLCNN_CONV_CPU_ARGS_H

#include "common/blocked_args.h"

/* Convolution in blocked layouts: conv_blocked. Index 0 = depth, 1 = height, 2 = width. */
struct conv_blocked_args {
    i64 src_n, dst_n, add_n;  /* batch strides */
    i32 n, k, cg, kg, groups; /* batch, filters, channels and filters of a group, groups */
    i32 c_blocks, k_blocks;   /* of a group: blocks of input channels, blocks of KV * V filters */
    i32 in[3], out[3], ker[3];
    i32 stride[2], pad[3], dil[3]; /* stride of width is a define */
    i32 chunks, per_item, span;    /* work-items of an image, tiles of a work-item, chunks of a span */
    i32 c_step; /* blocks of input channels whose weights serve a work-item's tiles before the next ones */
    struct blocked_epilogue epi;
};

/* Convolution from blocked layouts to row-major maps of few filters: conv_few_blocked. Index 0 = height, 1 = width. */
struct conv_few_blocked_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 c_blocks, c_step;    /* blocks of input channels; those whose weights serve a work-item's tiles at once */
    i32 in[2], out[2], ker[2];
    i32 stride, pad[2], dil[2]; /* stride of height; that of width is a define */
    i32 segments, per_item;     /* work-items of an output row, tiles of a work-item */
    struct blocked_epilogue epi;
    i32 unused;
};

/* RxR convolution by Winograd's transforms: conv_winograd. Index 0 = height, 1 = width. */
struct conv_winograd_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 w_k;                 /* elements between filters of the weights */
    i32 k, kg, cg, groups;   /* filters; filters and channels of a group; groups */
    i32 c_blocks, k_blocks;  /* of a group: blocks of V channels, times the taps of depth; blocks of KV * V filters */
    i32 in[2], out[2], pad[2];
    i32 dil[2];                                     /* between neighbours of a tile, of the input and the output */
    i32 in_d, out_d, ker_d, stride_d, pad_d, dil_d; /* along the depth; of images, ones and pad 0 */
    i32 tiles_high, tiles_wide;                     /* of a slice of the output, of all its phases */
    i32 first_tile, tiles;                          /* of this step */
    i32 t, c_step; /* of a work-item of `in`: tiles, as many as a register tile's T; blocks of channels */
    i32 t_step;    /* tiles of a work-item of `main` that transforms them itself (blocks of T), else 0 */
    i32 pool;      /* 0, or POOL_MAX or POOL_MEAN of windows of 2x2 side by side, which is what y then has */
    i32 skip;      /* channels that are zero under a register tile's tiles are left out */
    i32 turned;    /* w [C][K/groups][R][R] is that of a transposed convolution, taps from the last to the first */
    struct blocked_epilogue epi;
};
#define POOL_MAX 1
#define POOL_MEAN 2

/* Convolution that leaves out zeros: conv_sparse_mask. Index 0 = height, 1 = width. */
struct conv_sparse_args {
    i64 src_n, dst_n, add_n;  /* batch strides */
    i64 most;                 /* values that are not zero, up to which this form computes the layer; -1: always */
    i32 n, k, cg, kg, groups; /* batch, filters, channels and filters of a group, groups */
    i32 c_blocks, k_blocks;   /* of a group: blocks of V channels, blocks of KV * V filters */
    i32 in[2], out[2], ker;   /* height of the window; its width is a define */
    i32 stride, pad[2], dil;  /* stride and dilation of height */
    i32 rows, columns;        /* of a work-item's tile */
    i32 run;                  /* pixels of a work-item of `masks` */
    i32 skip;                 /* zeros are left out */
    struct blocked_epilogue epi;
};
#define SPARSE_MASK_PIXELS 256 /* whose sums a work-item keeps */

/* Depthwise convolution of channel blocks: conv_depthwise_blocked. Index 0 = height, 1 = width. */
struct depthwise_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 n, c;
    i32 in[2], out[2];
    i32 ker[2], stride[2], pad[2], dil[2];
    i32 rows, unused; /* output rows of a group */
    struct blocked_epilogue epi;
};

#endif
