/* conv_wgmma_scaled.h: products of scaled halves on Hopper, for convolutions and for rows of linear layers, which are images
 * of one pixel. */
#ifndef CLCNN_ALGOS_CONV_WGMMA_SCALED_H
#define CLCNN_ALGOS_CONV_WGMMA_SCALED_H

#include "algos/conv_nvidia/conv_mma_common.h"

/* What algo_def.applicable, workspace and emit ask of a device that has the kernel and of windows that it takes. a: the
 * convolution; p: what operands and the epilogue are taken from. */
bool scaled_may(const struct problem *p, const struct conv_args *a, struct why *why);
/* Time that the cost model expects, in ns; infinite where the kernel does not serve. */
float scaled_expected(const struct problem *p, const struct conv_args *a);
size_t scaled_workspace(const struct problem *p, const struct conv_args *a);
/* The step, whose cost is the caller's to state. */
struct step *emit_scaled(struct emit *e, const struct problem *p, const struct conv_args *a);

#endif
