/* pool_args.h: argument blocks of poolings; the rules are those of args_base.h. */
#ifndef CLCNN_POOL_ARGS_H
#define CLCNN_POOL_ARGS_H

#include "common/args_base.h"

/* Pooling over windows; index 0 = depth, 1 = height, 2 = width. A row is one (n, c, depth, height) of the output. */
struct pool_args {
    i64 rows, pieces, x_n, y_n;
    i32 c, in[3], out[3];
    i32 ker[3], stride[3], pad[3], pad_end[3], dil[3];
    i32 include_pad;
    i32 unused;
};

/* The same by tiles: a group has `planes` of the `maps` (n, c), and of each a tile of the output; down, across: tiles
 * of a map. */
struct pool_tile_args {
    struct pool_args pool;
    i64 maps;
    i32 planes, down, across;
    i32 unused;
};

/* Norms of windows, of order p. */
struct lp_pool_args {
    struct pool_args pool;
    i32 p;
    i32 unused;
};

/* The gradient of maxima: a row is one (n, c, depth, height) of x; y is dy; dx_n: batch stride of dx. */
struct max_pool_grad_args {
    struct pool_args pool;
    i64 dx_n;
};

/* The same by strips of columns: pool.rows counts maps, pool.pieces those of a map, each of `cells` rows of cells. */
struct max_strips_args {
    struct pool_args pool;
    i64 dx_n;
    i32 cells;
    i32 unused;
};

/* Maxima and where they are: step[d] is what a step along dimension d of the input adds to an index. */
struct max_indices_args {
    struct pool_args pool;
    i64 step[3], i_n; /* i_n: batch stride of the indices */
};

/* max_unpool: `rows` items of `inner` elements to be filled, or to be put into the output's items of `size` elements,
 * `count` in all. */
struct unpool_args {
    i64 rows, inner, pieces, x_n, i_n, y_n, size, count;
};

/* Global pooling: rows of `length` elements, numbered (n, c). */
struct global_pool_args {
    i64 rows, length, x_n, y_n;
    i32 c;
    f32 divisor; /* length for the mean, 1 for the maximum */
};

/* Pooling over adaptive bins; rows as in pool_args. */
struct adaptive_args {
    i64 rows, pieces, x_n, y_n;
    i32 c, in[3], out[3];
    i32 unused;
};

#define POOL_BINS -1
/* Pooling of channel blocks, windows or bins: pool_blocked. Index 0 = height, 1 = width, 2 = depth. */
struct pool_blocked_args {
    i64 x_n, y_n; /* batch strides */
    i32 c, rows;  /* rows: output rows of a work-item */
    i32 in[3], out[3];
    i32 ker[3], stride[3], pad[3], pad_end[3], dil[3]; /* of windows */
    i32 include_pad;
    i32 kind; /* POOL_BINS, or the size of a slice of a window whose taps are unrolled, or 0 */
    i32 average;
};

/* The gradient of maxima on channel blocks: rows of a work-item are those of x; y is dy; dx_n: batch stride of dx. */
struct max_pool_grad_blocked_args {
    struct pool_blocked_args pool;
    i64 dx_n;
};

#endif
