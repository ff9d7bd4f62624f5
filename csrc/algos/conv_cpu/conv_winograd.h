/* conv_winograd.h: minimal filtering over channel blocks as a part of other operators; see kernels/conv_cpu/conv_winograd.cl. */
#ifndef CLCNN_ALGOS_CONV_WINOGRAD_H
#define CLCNN_ALGOS_CONV_WINOGRAD_H

#include "algos/conv/conv_common.h"
#include "conv/conv_args.h"
#include "conv_cpu/conv_cpu_args.h"

/* F(m x m, r x r) */
struct filtering;
extern const struct filtering winograd_f4x3, winograd_f2x3;

bool winograd_applicable(const struct problem *conv, struct why *why, const struct filtering *f);
/* This and emit_winograd() take up what winograd_applicable() has decided. */
size_t winograd_workspace(const struct problem *conv);
/* Expected time of F(2x2, 5x5), in multiply-adds at the peak. */
double winograd5_cost(const struct problem *conv, const struct conv_args *a);
size_t winograd_tiles(const struct conv_args *a, int m); /* of m x m pixels, in the batch */
/* Arguments for tiles of m x m pixels, t of them by kv vectors of filters; c_step, t_step and pool are 0. */
struct conv_winograd_args winograd_args_of(const struct problem *conv, const struct conv_args *a, int m,
                                           int t, int kv);
/* Filters to be transformed where they are used: [groups][blocks of filters][C/groups][R*R][filters of a block]. */
struct conv_packing winograd_raw_packing(const struct problem *conv, int kv);
/* y is the convolution's output with pool 0, else what POOL_MAX or POOL_MEAN (kernels/common/args_base.h) makes of its windows of 2x2. */
void emit_winograd(const struct problem *conv, struct emit *e, const struct operand *y, int pool);

#endif
