/* rows_norm.h: what the algorithms of instance, group, layer, RMS and L2 norm share. */
#ifndef CLCNN_ALGOS_ROWS_NORM_H
#define CLCNN_ALGOS_ROWS_NORM_H

#include "algos/common/norm_rows.h"
#include "algos/common/rows.h"

/* For REQUIRE, where rows are computed in vectors. */
#define NO_VECTORS "only CPU devices with vectors of 8 floats or more compute rows in vectors"
#define FEW_NEIGHBOURS "fewer rows lie side by side than a vector has floats"
#define SEVERAL_ITEMS "a row has several dimensions of several items"
/* For PREFER, where work-items share rows. */
#define SHARED_ROWS "work-items that share rows are meant for GPUs"

/* Rows of a work-item on a CPU device: enough to be worth a group, and groups enough for all cores. */
static inline int64_t rows_run(const struct problem *p, int64_t rows, int64_t length)
{
    const size_t groups = device_units(p->device) * 16, least = ceil_div(2048, (size_t)length);
    const size_t run = ceil_div((size_t)rows, groups);
    return (int64_t)(run < least ? least : run);
}

#endif
