/* args.h: argument blocks, shared by the C planner (csrc) and the kernels: the one place where both sides agree on shapes.
 * Only i32, i64 and f32 members, the 64-bit ones first, so that host and device lay them out alike. Strides are in
 * elements. Each block is passed to its kernel by value. */
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
#endif

/* Up to three spatial dimensions; a 1-D or 2-D problem has ones in front. Index 0 = depth, 1 = height, 2 = width. */
struct conv_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i32 n, c, k, groups;     /* batch, input channels, filters, groups */
    i32 in[3], out[3];       /* spatial sizes */
    i32 ker[3], stride[3], pad[3], dil[3];
    f32 p0, p1; /* of the epilogue's activation */
};

/* Rows cut into pieces as rows.clh tells: unary_ref. */
struct unary_args {
    i64 rows, inner, pieces, x_n, y_n;
    f32 p0, p1;
};

/* Filters regrouped in blocks: conv_pack. */
struct conv_pack_args {
    i32 groups, kg, c, taps, block; /* kg filters and c channels a group, taps = product of kernel sizes */
};

#endif
