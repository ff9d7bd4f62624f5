/* topk.h: what the algorithms of topk share. */
#ifndef CLCNN_ALGOS_TOPK_H
#define CLCNN_ALGOS_TOPK_H

#include "algos/common/lines.h"

/* The lines of x, values and indices; pieces and groups are left to the algorithm. */
struct topk_args topk_args_of(const struct problem *p);
/* LEAST, and x, values and indices. */
void topk_operands(struct step *s, const struct problem *p);

#endif
