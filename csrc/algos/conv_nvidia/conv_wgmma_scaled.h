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

/* Channels of a conv group's plane as filters and halves have them: zeros fill the last chunk. */
int scaled_channels(const struct conv_args *a);

/* What pixels undo of the filters' channels: of each block of filters, one set for all blocks of a conv group, nothing. */
enum filter_gains { GAINS_OF_BLOCK, GAINS_OF_ALL, GAINS_NONE };
/* The filters that it takes, packed in blocks; pairs: each as two halves. */
size_t filter_halves_bytes(const struct conv_args *a, int block, bool pairs);
/* The largest weights of their channels, which are found before, unless nothing is undone. */
size_t channel_sizes_bytes(const struct conv_args *a, int block);
int emit_filter_halves(struct emit *e, const struct problem *p, const struct conv_args *a, int block,
                       enum filter_gains gains, bool pairs);

#endif
