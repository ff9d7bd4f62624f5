/* separable_products_args.h: argument blocks of a depthwise convolution and a 1x1 convolution by fewer products; the
 * rules are those of args_base.h. */
#ifndef CLCNN_SEPARABLE_PRODUCTS_ARGS_H
#define CLCNN_SEPARABLE_PRODUCTS_ARGS_H

#include "conv_cpu/amx_args.h"
#include "conv_cpu/fip_args.h"
#include "conv_cpu/strassen_args.h"
#include "fused/separable_args.h"

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

/* A depthwise convolution whose results become parts, and a 1x1 convolution of these: separable_amx. */
struct separable_amx_args {
    struct separable_args middle;
    struct conv_amx_args shape;
};

#endif
