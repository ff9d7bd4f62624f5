/* rows_norm.h: what the algorithms of instance, group, layer, RMS and L2 norm share. */
#ifndef CLCNN_ALGOS_ROWS_NORM_H
#define CLCNN_ALGOS_ROWS_NORM_H

#include "algos/common/rows.h"

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

#endif
