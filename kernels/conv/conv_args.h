/* conv_args.h: argument blocks of a convolution; the rules are those of args_base.h. */
#ifndef CLCNN_CONV_ARGS_H
#define CLCNN_CONV_ARGS_H

#include "common/args_base.h"

/* Up to three spatial dimensions; a 1-D or 2-D problem has ones in front. Index 0 = depth, 1 = height, 2 = width. */
struct conv_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 w_k;                 /* elements between neighbours along the first dimension of w */
    i32 n, c, k, groups;     /* batch, input channels, filters, groups */
    i32 in[3], out[3];       /* spatial sizes */
    i32 ker[3], stride[3], pad[3], dil[3];
    f32 p0, p1; /* of the epilogue's activation */
};

#endif
