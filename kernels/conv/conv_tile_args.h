/* conv_tile_args.h: argument blocks of convolutions in tiles for any GPU, and what is done before and after a
 * convolution; the rules are those of args_base.h. */
#ifndef CLCNN_CONV_TILE_ARGS_H
#define CLCNN_CONV_TILE_ARGS_H

#include "conv/conv_args.h"

/* A convolution in tiles through local memory: conv_implicit. `share` chunks of its depth belong to each of the groups
 * that share a sum. */
struct conv_implicit_args {
    struct conv_args conv;
    i32 share, unused;
};

/* The transforms around the products of conv_winograd_gemm. Index 0 = height, 1 = width. */
struct conv_winograd_gemm_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 c, k;                /* input channels, filters */
    i32 in[2], out[2], pad[2];
    i32 tiles_high, tiles_wide;   /* of an image */
    i32 first_tile, tiles, pitch; /* of this step; elements between rows of transformed tiles */
    i32 unused;
    f32 p0, p1; /* of the epilogue's activation */
};

/* F(2x2, 3x3) in one kernel: conv_winograd_fused. `share` chunks of channels belong to each of the groups that share
 * a sum. */
struct conv_winograd_fused_args {
    struct conv_args conv;
    i32 share;
    i32 tiles_high, tiles_wide, tiles; /* of an image, and of the batch */
};

/* Filters regrouped in blocks: conv_pack. */
struct conv_pack_args {
    i64 w_k;                 /* elements between filters of the source */
    i32 groups, kg, c, taps; /* kg filters and c channels a group, taps = product of kernel sizes */
    i32 block, c_block;      /* filters and channels side by side */
    i32 k_blocks, c_blocks;  /* of a group: blocks of them */
    i32 lanes;               /* > 1: a group's filters and channels keep their lanes in blocks of so many */
    i32 turned;              /* 0, or the filters of a group of a transposed convolution whose weights these are */
};

/* The gradient of a convolution's filters in parts: outputs of a part, and how many parts there are. */
struct filter_grad_parts_args {
    struct conv_args conv;
    i64 chunk;
    i32 parts, unused;
};

/* Sums of a convolution that several groups share (split-k), added up: conv_sum_parts. */
struct conv_split_k_args {
    i64 dst_n, add_n; /* batch strides */
    i64 map;          /* pixels of an image */
    i32 n, k, split_k, unused;
    f32 p0, p1; /* of the epilogue's activation */
};

#endif
