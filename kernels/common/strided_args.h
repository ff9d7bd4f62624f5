/* strided_args.h: argument blocks of operands walked by sizes and strides; the rules are those of args_base.h. */
#ifndef CLCNN_STRIDED_ARGS_H
#define CLCNN_STRIDED_ARGS_H

#include "common/args_base.h"

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

#endif
