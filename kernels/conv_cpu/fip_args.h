/* fip_args.h: argument blocks of the fast inner product; the rules are those of args_base.h. */
#ifndef CLCNN_FIP_ARGS_H
#define CLCNN_FIP_ARGS_H

#include "common/blocked_args.h"

/* 1x1 convolution by the fast inner product: fip.clh. */
struct fip_shape {
    i64 dst_n, add_n;          /* batch strides */
    i64 row;                   /* of rows: elements from one of y to the next */
    i32 c_blocks, k, k_blocks; /* blocks of V channels; filters, blocks of KV * V */
    i32 width, across;         /* of a row of y: pixels, tiles */
    i32 pixels, tiles, all;    /* of an image: pixels, tiles; tiles of the batch */
    /* groups that share tiles times blocks of filters evenly; by_filters: numbered by blocks first */
    i32 groups, by_filters;
    struct blocked_epilogue epi;
};
/* conv_fip. */
struct conv_fip_args {
    struct fip_shape shape;
    i64 src_n, w_k;       /* batch stride; elements between filters of the weights */
    i64 row;              /* of x, as of y */
    i32 in[2], stride[2]; /* height, width */
    i32 c, unused;
};

#endif
