/* ecr_args.h: argument blocks of convolutions by lists of what is not zero; the rules are those of args_base.h. */
#ifndef CLCNN_ECR_ARGS_H
#define CLCNN_ECR_ARGS_H

#include "conv/conv_args.h"

/* conv_ecr, and conv_pool_pecr, whose y has `pooled` pixels (height, width). */
struct conv_ecr_args {
    struct conv_args conv; /* conv.dst_n belongs to y */
    i32 pooled[2];
    i32 skip; /* zeros are left out */
    i32 unused;
};

#endif
