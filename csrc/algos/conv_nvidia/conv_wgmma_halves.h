/* conv_wgmma_halves.h: products of halves made beforehand on Hopper, for convolutions and for rows of linear layers, which are images of one
 * pixel. */
#ifndef CLCNN_ALGOS_CONV_WGMMA_HALVES_H
#define CLCNN_ALGOS_CONV_WGMMA_HALVES_H

#include "algos/conv_nvidia/conv_mma_common.h"

/* What algo_def.applicable, workspace and emit ask of a device that has the kernel. a: the convolution; p: what operands and the
 * epilogue are taken from. */
bool halves_may(const struct problem *p, const struct conv_args *a, struct why *why);
/* Time that the cost model expects, in ns; infinite where the kernel does not serve. */
float halves_expected(const struct problem *p, const struct conv_args *a);
/* The same of pairs of halves, which the map must be. */
bool pairs_may(const struct problem *p, const struct conv_args *a, struct why *why);
size_t halves_workspace(const struct problem *p, const struct conv_args *a);
/* The step, whose cost is the caller's to state. */
struct step *emit_halves(struct emit *e, const struct problem *p, const struct conv_args *a);

#endif
