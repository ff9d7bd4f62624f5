/* args.h: argument blocks, shared by the C planner (csrc) and the kernels: the one place where both sides agree on shapes.
 * Only i32, i64 and f32 members, the 64-bit ones first, so that host and device lay them out alike. Strides are in
 * elements. Each block is passed to its kernel by value, and has no padding at its end, which drivers may count or not. */
#ifndef CLCNN_ARGS_H
#define CLCNN_ARGS_H

#ifdef __OPENCL_VERSION__
typedef int i32;
typedef long i64;
typedef float f32;
#else
#include <stdint.h>
typedef int32_t i32;
typedef int64_t i64;
typedef float f32;
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#endif

/* Up to three spatial dimensions; a 1-D or 2-D problem has ones in front. Index 0 = depth, 1 = height, 2 = width. */
struct conv_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 w_k;                 /* elements between neighbours along the first dimension of w */
    i32 n, c, k, groups;     /* batch, input channels, filters, groups */
    i32 in[3], out[3];       /* spatial sizes */
    i32 ker[3], stride[3], pad[3], dil[3];
    f32 p0, p1; /* of the epilogue's activation */
};

/* A convolution in tiles through local memory: conv_implicit. `share` chunks of its depth belong to each part of a sum that
 * several groups share. */
struct conv_implicit_args {
    struct conv_args conv;
    i32 share, unused;
};

/* The end of the kernels on channel blocks (blocked_store.clh). */
struct blocked_epilogue {
    f32 p0, p1;    /* of the activation */
    i32 bias, add; /* whether there are such operands */
};

/* 2-D convolution in blocked layouts: conv_blocked. Index 0 = height, 1 = width. */
struct conv_blocked_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 n, k, kg, groups;    /* batch, filters, filters of a group, groups */
    i32 c_blocks, k_blocks;  /* of a group: blocks of input channels, blocks of KV * V filters */
    i32 in[2], out[2], ker[2];
    i32 stride, pad[2], dil[2]; /* stride of height; that of width is a define */
    i32 chunks, per_item, span; /* work-items of an image, tiles of a work-item, chunks of a span */
    i32 c_step; /* blocks of input channels whose weights serve a work-item's tiles before the next ones */
    struct blocked_epilogue epi;
    i32 unused;
};

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

/* Such a convolution and the maximum of windows: conv_pool_stem. stem.dst_n belongs to y. */
struct conv_pool_stem_args {
    struct conv_stem_args stem;
    i32 pooled[2], lead[2]; /* sizes of y, padding before: height, width */
    i32 window, step;       /* height of a window, and distance between two; along a row they are defines */
    i32 columns;            /* of the private row: output columns between those that no window must choose */
    i32 rows;               /* of y, of a work-item */
};

/* 3x3 convolution by Winograd's transforms: conv_winograd. Index 0 = height, 1 = width. */
struct conv_winograd_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 w_k;                 /* elements between filters of the weights */
    i32 k, kg, cg, groups;   /* filters; filters and channels of a group; groups */
    i32 c_blocks, k_blocks;  /* of a group: blocks of V channels, blocks of KV * V filters */
    i32 in[2], out[2], pad[2];
    i32 tiles_high, tiles_wide; /* of an image */
    i32 first_tile, tiles;      /* of this step */
    i32 t, c_step; /* of a work-item of `in`: tiles, as many as a register tile's T; blocks of channels */
    i32 t_step;    /* tiles of a work-item of `main` that transforms them itself (blocks of T), else 0 */
    i32 pool;      /* 0, or POOL_MAX or POOL_MEAN of windows of 2x2 side by side, which is what y then has */
    struct blocked_epilogue epi;
};
#define POOL_MAX 1
#define POOL_MEAN 2

/* 1x1 convolution by Strassen's products: strassen.clh. */
struct strassen_shape {
    i64 dst_n, add_n;       /* batch strides */
    i32 c_blocks, k_blocks; /* of half of the channels: blocks of V; of half of the filters: blocks of KV * V */
    i32 pixels, pairs;      /* of an image: pixels, pairs of tiles */
    struct blocked_epilogue epi;
};
/* conv_strassen. */
struct conv_strassen_args {
    struct strassen_shape shape;
    i64 src_n, w_k; /* batch stride; elements between filters of the weights */
    i32 first, count, per_item, parts; /* pairs: of this step, of a work-item of `main`; parts of a pair in `spread` */
};

/* 1x1 convolution by the fast inner product: fip.clh. */
struct fip_shape {
    i64 dst_n, add_n;          /* batch strides */
    i32 c_blocks, k, k_blocks; /* blocks of V channels; filters, blocks of KV * V */
    i32 width, across;         /* of a row of y: pixels, tiles */
    i32 pixels, tiles, all;    /* of an image: pixels, tiles; tiles of the batch */
    i32 groups, by_filters;    /* groups that share tiles times blocks of filters evenly; by_filters: numbered by blocks first */
    struct blocked_epilogue epi;
};
/* conv_fip. */
struct conv_fip_args {
    struct fip_shape shape;
    i64 src_n, w_k;       /* batch stride; elements between filters of the weights */
    i32 in[2], stride[2]; /* height, width */
    i32 c, unused;
};

/* The transforms around the products of conv_winograd_gemm. Index 0 = height, 1 = width. */
struct conv_winograd_gemm_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 c, k;                /* input channels, filters */
    i32 in[2], out[2], pad[2];
    i32 tiles_high, tiles_wide;    /* of an image */
    i32 first_tile, tiles, pitch; /* of this step; elements between rows of transformed tiles */
    i32 unused;
    f32 p0, p1;                    /* of the epilogue's activation */
};

/* F(2x2, 3x3) in one kernel: conv_winograd_fused. `share` chunks of channels belong to each part of a sum that several groups
 * share. */
struct conv_winograd_fused_args {
    struct conv_args conv;
    i32 share;
    i32 tiles_high, tiles_wide, tiles; /* of an image, and of the batch */
};

/* Rows cut into pieces as rows.clh tells: unary_ref. */
struct unary_args {
    i64 rows, inner, pieces, x_n, y_n;
    f32 p0, p1;
};

/* Filters regrouped in blocks: conv_pack. */
struct conv_pack_args {
    i64 w_k;                 /* elements between filters of the source */
    i32 groups, kg, c, taps; /* kg filters and c channels a group, taps = product of kernel sizes */
    i32 block, c_block;      /* filters and channels side by side */
};

/* Sizes and strides of up to four operands (strided.clh); the last dimension is the row, the others number the rows. */
struct strided_args {
    struct {
        i64 of[8];
    } stride[4];
    i64 rows, pieces;
    i32 size[8];
    i32 rank;
    i32 unused;
};

/* One parameter a channel (batch_norm_ref): row r is (r / per_item, r % per_item), its parameters start at
 * (r % per_item) * row_step and column i has parameter i * column_step further. */
struct channel_args {
    i64 rows, inner, pieces, per_item;
    i64 x_n, y_n, add_n; /* batch strides */
    i32 row_step, column_step;
    f32 eps, p0, p1;
    i32 unused;
};

/* batch_norm of channel blocks. */
struct batch_norm_blocked_args {
    i64 x_n, y_n, add_n; /* batch strides */
    i32 c, pixels, run;  /* run: pixels of a work-item */
    f32 eps;
    struct blocked_epilogue epi; /* bias is 0: the shift is part of the sum */
};

/* Pooling over windows; index 0 = depth, 1 = height, 2 = width. A row is one (n, c, depth, height) of the output. */
struct pool_args {
    i64 rows, pieces, x_n, y_n;
    i32 c, in[3], out[3];
    i32 ker[3], stride[3], pad[3], pad_end[3], dil[3];
    i32 include_pad;
    i32 unused;
};

/* Norms of windows, of order p. */
struct lp_pool_args {
    struct pool_args pool;
    i32 p;
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

/* Rows of elements that are normalised together, `parts` parts of `length` elements, part_step apart: row r lies in item
 * r / per_item, at number r % per_item. Its element j has the parameters number (r % per_item) * row_step + j / run. */
struct rows_norm_args {
    i64 rows, per_item, parts, length, x_n, y_n, x_part, y_part, row_step, run;
    f32 eps;
    i32 unused;
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
/* Pooling of channel blocks, windows or bins: pool_blocked. Index 0 = height, 1 = width. */
struct pool_blocked_args {
    i64 x_n, y_n; /* batch strides */
    i32 c, rows;  /* rows: output rows of a work-item */
    i32 in[2], out[2];
    i32 ker[2], stride[2], pad[2], pad_end[2], dil[2]; /* of windows */
    i32 include_pad;
    i32 kind; /* POOL_BINS, or the size of a window whose taps are unrolled, or 0 */
    i32 average, unused;
};

/* local_response_norm: a row is one (n, c). */
struct lrn_args {
    i64 rows, pieces, inner, x_n, y_n;
    i32 c, size;
    f32 alpha, beta, k; /* alpha is already divided by size */
    i32 unused;
};

/* softmax over l in x[n][m][l][i]; rows are numbered (n, m). */
struct softmax_args {
    i64 rows, pieces, inner, middle;
    i64 x_n, y_n, middle_step, x_step, y_step; /* x_step, y_step: between neighbours along l */
    i32 length;
    i32 unused;
};

/* Reductions: the first `kept` dimensions number the outputs, the others are reduced, the last one in the inner loop. Its
 * `parts` parts of up to `chunk` elements are rows of their own, with results side by side in y. */
struct reduce_args {
    i64 x[8], y[8];
    i64 rows, pieces, outer; /* outer: product of the reduced dimensions but the last */
    i64 parts, chunk;
    i32 size[8];
    i32 rank, kept;
    f32 divisor;
    i32 unused;
};

/* Elements of x picked by indices: operands 0 to 2 are x, the first number of each index, and y. Number k of an index,
 * index_step further, counts steps of axis_step[k] in x, of which there are axis_size[k]. */
struct gather_args {
    struct strided_args walk;
    i64 axis_step[8], index_step;
    i32 axis_size[8];
    i32 axes;
    i32 unused;
};

/* Lines along one dimension: the walk over all others, and the steps along it in each operand. */
struct line_args {
    struct strided_args walk;
    i64 step[3];
    i32 length, count;      /* elements of a line of x, and of the results */
    i32 exclusive, reverse; /* cumsum */
};

/* Reductions of elements of any type: the walk over what is kept, and the reduced dimensions of x. */
struct typed_reduce_args {
    struct strided_args walk;
    i64 x[8], count;
    i32 size[8];
    i32 rank;
    i32 unused;
};

/* Deformable convolution: spatial sizes are height, width. */
struct deform_args {
    i64 rows, pieces, x_n, w_k, offset_n, mask_n, y_n;
    i32 c, k, groups, offset_groups;
    i32 in[2], out[2], ker[2], stride[2], pad[2], dil[2];
};

/* Sampling by a grid: index 0 = depth, 1 = height, 2 = width; a row is one (n, c, depth, height) of the output. */
struct grid_args {
    i64 rows, pieces, x_n, grid_n, y_n;
    i32 c, in[3], out[3];
    i32 unused;
};

/* Regions of interest: a row is one (region, c, height) of the output. */
struct roi_args {
    i64 rows, pieces, x_n, roi_n, y_n;
    i32 n, c, in[2], out[2], samples; /* n: items of x */
    f32 scale, offset;                /* offset: taken off every coordinate */
    i32 least;                        /* 1: regions are at least one element large */
};

/* Boxes: `lists` pairs of an item and a class, up to `most` boxes kept of each. */
struct nms_args {
    i64 boxes_n, scores_n, row_n;
    i32 lists, classes, boxes, most;
    f32 iou, score;
};

/* Padding; the last dimension is the row. */
struct pad_args {
    i64 x[8], y[8];
    i64 rows, pieces;
    i32 x_size[8], y_size[8], begin[8];
    i32 rank;
    f32 value;
};

/* Transposes: dimensions 0 to rank - 1 number the tiles' planes, `x` is contiguous along `high`, y along `wide`. */
struct transpose_args {
    i64 x[6], y[6];
    i64 x_step, y_step, tiles_high,
        tiles_wide; /* x between neighbours along wide, y between neighbours along high */
    i32 size[6];
    i32 rank, high, wide;
    i32 unused;
};

/* Resampling: output index i of a dimension reads at (i * mul + add) / div, in exact integers. A row is one (n, block,
 * depth, height) of the output, a block being `block` channels of the c. */
struct resize_args {
    i64 rows, pieces, x_n, y_n;
    i64 mul[3], add[3], div[3];
    i32 c, block, in[3], out[3];
};

/* Resampling by kernels of some width: coordinates as in resize_args; `scale` below 1 stretches the kernel. */
struct resize_taps_args {
    i64 rows, pieces, x_n, y_n;
    i64 mul[3], add[3], div[3];
    i32 c, in[3], out[3];
    i32 exclude, rounding;
    f32 scale[3], cubic, outside;
};

/* Matrix products y[b] = alpha a[b] b[b] + beta c + add[b]: see gemm_operands.clh. */
struct gemm_args {
    i64 a_b[6], b_b[6];         /* strides of a and b along the batch dimensions, 0: broadcast */
    i64 a_m, a_k, b_k, b_n;     /* strides inside an item */
    i64 y_n, y_m, add_n, add_m; /* first batch dimension, rows */
    i64 c_m, c_n;               /* 0: broadcast */
    i32 batch[6], m, n, k;
    f32 alpha, beta;
    f32 p0, p1; /* of the epilogue's activation */
    i32 unused;
};

/* Packing of linear's weights: in 24 bits, linear_fixed, or as halves, linear_gemv_pack. */
struct linear_pack_args {
    i64 w_n, pitch; /* elements between rows of the source; floats of a packed block of rows, or halves of a row */
    i32 n, k;
};

/* Depthwise, activation, 1x1: separable_*. Index 0 = height, 1 = width. */
struct separable_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 dw_k;                /* elements between filters of the depthwise weights */
    i32 n, c, mid, k;        /* batch, input channels, middle channels, filters */
    i32 in[2], out[2];       /* spatial sizes */
    i32 ker[2], stride[2], pad[2], dil[2];
    f32 mid_p0, mid_p1, p0, p1; /* of the activations between and at the end */
};

/* A convolution, its epilogue, and windows over its output that do not overlap: conv_pool_*. conv.dst_n belongs to y. */
struct conv_pool_args {
    struct conv_args conv;
    i32 pooled[2]; /* sizes of y: height, width */
};

/* Depthwise convolution of channel blocks: conv_depthwise_blocked. Index 0 = height, 1 = width. */
struct depthwise_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 n, c;
    i32 in[2], out[2];
    i32 ker[2], stride[2], pad[2], dil[2];
    i32 rows, unused; /* output rows of a group */
    struct blocked_epilogue epi;
};

/* The same on channel blocks: separable_blocked. */
struct separable_blocked_args {
    struct separable_args shape;
    struct blocked_epilogue epi; /* shape.p0 and p1 are for the others */
    i32 tiles, unused;           /* of a work-item */
};

/* A depthwise convolution whose results become right factors of Strassen's products, and these: separable_strassen. */
struct separable_strassen_args {
    struct separable_args middle;
    struct strassen_shape shape;
    i32 all, groups; /* pairs of the batch; groups that share the products evenly */
};

/* A depthwise convolution and such a 1x1 convolution: separable_fip. */
struct separable_fip_args {
    struct separable_args middle;
    struct fip_shape shape;
};

/* Between row-major maps and channel blocks (reorder_blocks.cl). */
struct reorder_args {
    i64 x_n, y_n; /* batch strides */
    i32 n, c, pixels;
    i32 unused;
};

/* A step of a chain: chain.clh, chain_groups.clh. The argument block is whatever the step's own kernel takes. */
#define CHAIN_STEP_BUFFERS 10
struct chain_args {
    i64 word[64];
};
struct chain_step {
    i64 offset[CHAIN_STEP_BUFFERS]; /* addresses, or bytes from a parameter */
    struct chain_args args;
    i32 buffer[CHAIN_STEP_BUFFERS]; /* 0, or which parameter, from 1 on */
    i32 variant, groups;
    i32 wait;  /* steps of the chain that are done before this one begins */
    i32 at;    /* the work-group that takes the first group */
    i32 fixed; /* the operand that is the step's weights, */
    i32 lines; /* and how many cache lines of 128 bytes they are */
};

/* Sums of a convolution that several groups computed in parts: conv_sum_parts. */
struct conv_parts_args {
    i64 dst_n, add_n; /* batch strides */
    i64 map;          /* pixels of an image */
    i32 n, k, parts, unused;
    f32 p0, p1; /* of the epilogue's activation */
};

#include "args_mma.h"

#ifndef __OPENCL_VERSION__
#pragma GCC diagnostic pop
#endif
#endif
