/* conv_phases_args.h: argument blocks of transposed convolutions by phases; the rules are those of args_base.h. */
#ifndef CLCNN_CONV_PHASES_ARGS_H
#define CLCNN_CONV_PHASES_ARGS_H

#include "common/blocked_args.h"

/* How a transposed convolution is cut into phases. Index 0 = height, 1 = width. */
struct conv_phases {
    i32 in[2], out[2];
    i32 ker[2], stride[2], pad[2], dil[2];
    i32 every[2], step[2]; /* between neighbours among the taps of a phase, and among the inputs that they meet */
    i32 count[2];          /* phases that have outputs */
};

/* On channel blocks: conv_transpose_blocked. */
struct conv_transpose_blocked_args {
    i64 src_n, dst_n, add_n;            /* batch strides */
    i32 n, k, kg, c;                    /* batch, filters, filters and channels of a group */
    i32 c_blocks, k_blocks;             /* of a group: blocks of input channels, blocks of KV * V filters */
    i32 chunks, per_item, span, c_step; /* as in conv_blocked_args */
    struct conv_phases phases, depth;   /* depth: its index 0 = depth, of images one of everything */
    struct blocked_epilogue epi;
};

/* On channel blocks, few filters: conv_transpose_few_blocked. */
struct conv_transpose_few_blocked_args {
    i64 src_n, dst_n, add_n;          /* batch strides */
    i32 k, c_blocks, c_step;          /* filters; as in conv_few_blocked_args */
    i32 tiles, segments, per_item;    /* of an output row: tiles and work-items; tiles of a work-item */
    struct conv_phases phases, depth; /* as in conv_transpose_blocked_args */
    struct blocked_epilogue epi;
};

/* One channel a group, on channel blocks: conv_transpose_depthwise_blocked. */
struct conv_transpose_depthwise_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 c, rows;             /* channels, output rows of a group */
    struct conv_phases phases;
    struct blocked_epilogue epi;
};

/* Row-major maps: conv_transpose_direct and conv_transpose_implicit. */
struct conv_transpose_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 n, c, k, groups;     /* batch, input channels, filters, groups */
    struct conv_phases phases;
    i32 tiles, split_k; /* tiles of the largest phase, over the batch; groups that share a sum */
    f32 p0, p1;         /* of the epilogue's activation */
};

#endif
