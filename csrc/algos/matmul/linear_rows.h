/* linear_rows.h: linear layers as 1x1 convolutions of rows, for algorithms of CPU devices that do both. */
#ifndef CLCNN_ALGOS_LINEAR_ROWS_H
#define CLCNN_ALGOS_LINEAR_ROWS_H

#include "algos/conv/conv_common.h"
#include "algos/matmul/gemm_common.h"

/* Each row is a pixel; items that do not go on where the one before ends are images. */
struct linear_rows {
    struct gemm_args gemm;
    struct conv_args conv;
    int64_t x_row, y_row; /* elements between rows */
};
struct linear_rows linear_rows_of(const struct problem *p);

/* What both REQUIRE. */
bool linear_rows_fit(const struct problem *p, const struct linear_rows *r, struct why *why);

#endif
