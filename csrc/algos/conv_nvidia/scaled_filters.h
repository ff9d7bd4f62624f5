/* scaled_filters.h: filters as scaled halves, for wgmma_scaled and wgmma_halves. */
#ifndef CLCNN_ALGOS_SCALED_FILTERS_H
#define CLCNN_ALGOS_SCALED_FILTERS_H

#include "algos/conv_nvidia/conv_mma_common.h"

/* What pixels undo of the filters' channels: of each block of filters, one set for all blocks of a conv group, nothing. */
enum filter_gains { GAINS_OF_BLOCK, GAINS_OF_ALL, GAINS_NONE };
/* The filters that it takes, packed in blocks; pairs: each as two halves. */
size_t filter_halves_bytes(const struct conv_args *a, int block, bool pairs);
/* The largest weights of their channels, which are found before, unless nothing is undone. */
size_t channel_sizes_bytes(const struct conv_args *a, int block);
int emit_filter_halves(struct emit *e, const struct problem *p, const struct conv_args *a, int block,
                       enum filter_gains gains, bool pairs);

#endif
