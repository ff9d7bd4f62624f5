/* filter_grad_args.h: argument blocks of the gradients of filters on channel blocks; the rules are those of
 * args_base.h. */
#ifndef CLCNN_FILTER_GRAD_ARGS_H
#define CLCNN_FILTER_GRAD_ARGS_H

#include "common/args_base.h"

/* conv_filter_grad_blocked. Index 0 = depth, 1 = height, 2 = width. A line is a row of an image of dy. */
struct filter_grad_args {
    i64 src_n, dst_n, w_k;                  /* batch strides of x and dy, elements between filters of dw */
    i32 n, c, k, cg, kg;                    /* images; channels and filters, in all and of a group */
    i32 in[3], out[3], ker[3];              /* sizes of x, dy and the window */
    i32 stride[3], pad[3], dil[3];          /* of the convolution */
    i32 bands, band_k, band_tiles, c_tiles; /* see the kernel */
    i32 parts, shares;                      /* of the lines; of the tiles of filters */
    i32 span, rows, unused;                 /* lines that stay in a core's second and first cache */
};

/* conv_filter_grad_winograd. Index 0 = height, 1 = width. */
struct filter_grad_winograd_args {
    i64 src_n, dst_n, w_k;      /* batch strides of x and dy, elements between filters of dw */
    i32 c, k;                   /* channels, filters */
    i32 c_blocks, k_blocks;     /* of V channels, of V filters */
    i32 c_tiles, k_tiles;       /* of CT channels, of KV * V filters */
    i32 in[2], out[2], pad[2];  /* sizes of x and dy, padding of the convolution */
    i32 tiles_high, tiles_wide; /* of an image of dy */
    i32 first_tile, tiles;      /* of this slice */
    i32 shares, begins;         /* of the tiles of filters; whether this slice is the first one */
};

#endif
