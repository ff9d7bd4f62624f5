/* conv_winograd.h: minimal filtering over channel blocks as a part of other operators; see kernels/conv_winograd.cl. */
#ifndef CLCNN_ALGOS_CONV_WINOGRAD_H
#define CLCNN_ALGOS_CONV_WINOGRAD_H

#include "algos/conv_common.h"

/* F(m x m, r x r) */
struct filtering;
extern const struct filtering winograd_f4x3, winograd_f2x3;

bool winograd_applicable(const struct problem *conv, struct why *why, const struct filtering *f);
size_t winograd_workspace(const struct problem *conv, const struct filtering *f);
/* Time of the direct kernel, in multiply-adds at the peak. */
double winograd_direct_cost(const struct conv_args *a);
/* y is the convolution's output with pool 0, else what POOL_MAX or POOL_MEAN (kernels/args.h) makes of its windows of 2x2. */
void emit_winograd(const struct problem *conv, struct emit *e, const struct filtering *f,
                   const struct operand *y, int pool);

#endif
