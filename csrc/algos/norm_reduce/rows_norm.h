/* rows_norm.h: what the algorithms of instance, group, layer, RMS and L2 norm share. */
#ifndef CLCNN_ALGOS_ROWS_NORM_H
#define CLCNN_ALGOS_ROWS_NORM_H

#include "algos/common/rows.h"

/* For REQUIRE, where rows are computed in vectors. */
#define NO_VECTORS "only CPU devices with vectors of 8 floats or more compute rows in vectors"
#define FEW_NEIGHBOURS "fewer rows lie side by side than a vector has floats"

/* KIND of the kernels: what a row is divided by. */
enum norm_kind { NORM_VARIANCE, NORM_MEAN_SQUARE, NORM_LENGTH };

static inline enum norm_kind norm_kind(const struct problem *p)
{
    return p->op == &op_rms_norm ? NORM_MEAN_SQUARE : p->op == &op_l2_norm ? NORM_LENGTH : NORM_VARIANCE;
}

/* View of input i, VIEW_NONE where there is none. */
static inline int norm_operand(const struct problem *p, int i)
{
    return i < p->n_in && p->in[i].present ? p->in[i].view : VIEW_NONE;
}

/* Rows of a work-item on a CPU device: enough to be worth a group, and groups enough for all cores. */
static inline int64_t rows_run(const struct problem *p, int64_t rows, int64_t length)
{
    const size_t groups = device_units(p->device) * 16, least = ceil_div(2048, (size_t)length);
    const size_t run = ceil_div((size_t)rows, groups);
    return (int64_t)(run < least ? least : run);
}

#endif
