/* conv_wgmma_local.h: products of tf32 in local memory on Hopper, for convolutions and for rows of linear layers, which are images of one
 * pixel. */
#ifndef CLCNN_ALGOS_CONV_WGMMA_LOCAL_H
#define CLCNN_ALGOS_CONV_WGMMA_LOCAL_H

#include "algos/conv_nvidia/conv_mma_common.h"

/* Whether images are one pixel, as rows of linear layers are. */
bool local_is_deep(const struct conv_args *a);
/* Convolutions of single pixels that it takes, on a device that has the kernel; wgmma_halves takes the same. */
bool local_takes(const struct problem *p, const struct conv_args *a, struct why *why);
/* What algo_def.applicable, workspace and emit ask of a device that has the kernel. a: the convolution; p: what operands and the
 * epilogue are taken from. */
bool local_may(const struct problem *p, const struct conv_args *a, struct why *why);
/* Time that the cost model expects of it or of wgmma_scaled, the shorter one, in ns. */
float local_expected(const struct problem *p, const struct conv_args *a);
size_t local_workspace(const struct problem *p, const struct conv_args *a);
/* The step, whose cost is the caller's to state. */
struct step *emit_local(struct emit *e, const struct problem *p, const struct conv_args *a);

#endif
