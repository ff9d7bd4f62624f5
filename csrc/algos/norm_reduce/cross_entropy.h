/* cross_entropy.h: what cross-entropy and its gradient share. */
#ifndef CLCNN_ALGOS_CROSS_ENTROPY_H
#define CLCNN_ALGOS_CROSS_ENTROPY_H

#include "algos/common/rows.h"

struct cross_entropy_args cross_entropy_args_of(const struct problem *p);

static inline bool cross_entropy_is_mean(const struct problem *p)
{
    return ((const struct loss_attrs *)p->attrs)->reduction == 0;
}

#endif
