/* strassen_args.h: argument blocks of Strassen's products; the rules are those of args_base.h. */
#ifndef CLCNN_STRASSEN_ARGS_H
#define CLCNN_STRASSEN_ARGS_H

#include "common/blocked_args.h"

/* 1x1 convolution by Strassen's products: strassen.clh. */
struct strassen_shape {
    i64 dst_n, add_n, row;  /* batch strides; elements between rows of y and add, where they are rows (ROWS) */
    i32 c_blocks, k_blocks; /* of half of the channels: blocks of V; of half of the filters: blocks of KV * V */
    i32 pixels, pairs;      /* of an image: pixels, pairs of tiles */
    struct blocked_epilogue epi;
};
/* conv_strassen. */
struct conv_strassen_args {
    struct strassen_shape shape;
    /* batch stride; elements between rows of x, and between filters of the weights */
    i64 src_n, row, w_k;
    i32 first, count, per_item, parts; /* pairs: of this step, of a work-item of `main`; parts of a pair in `spread` */
};

#endif
