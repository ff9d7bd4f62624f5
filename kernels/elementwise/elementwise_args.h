/* elementwise_args.h: argument blocks of element-wise functions; the rules are those of args_base.h. */
#ifndef CLCNN_ELEMENTWISE_ARGS_H
#define CLCNN_ELEMENTWISE_ARGS_H

#include "common/args_base.h"

/* Rows cut into pieces as rows.clh tells: unary_ref. */
struct unary_args {
    i64 rows, inner, pieces, x_n, y_n;
    f32 p0, p1;
};

#endif
