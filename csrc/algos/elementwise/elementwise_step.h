/* elementwise_step.h: what the algorithms share that compute several element-wise functions in one pass. */
#ifndef CLCNN_ALGOS_ELEMENTWISE_STEP_H
#define CLCNN_ALGOS_ELEMENTWISE_STEP_H

#include "algos/common/rows.h"

/* The functions' numbers. */
void elementwise_numbers(const struct problem *p, f32 *p0, f32 *p1);
/* Defines PART0 to PART3 and HOW0 to HOW3, and the operands. */
void elementwise_step(struct step *s, const struct problem *p);

#endif
