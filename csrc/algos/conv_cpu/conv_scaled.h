/* conv_scaled.h: filters of a 1x1 convolution packed with scales of filters and channels (kernels/conv_cpu/scales.clh). */
#ifndef CLCNN_ALGOS_CONV_SCALED_H
#define CLCNN_ALGOS_CONV_SCALED_H

#include "algos/conv/conv_common.h"

/* A kernel file with the entries `levels` and `gains`, of blocks of channels, and `pack`. */
struct scaled_packing {
    const char *file;
    const void *args;
    size_t arg_bytes;
    int kv;        /* vectors of filters of a register tile */
    size_t groups; /* of `pack` */
    size_t bytes;  /* packed filters */
};

/* The steps that pack, and their results' views. p: the 1x1 convolution. */
struct scaled_filters {
    int gains, packed;
};
struct scaled_filters emit_scaled_filters(struct emit *e, const struct problem *p, const struct conv_args *a,
                                          const struct scaled_packing *packing);
size_t scaled_filter_workspace(const struct problem *p, const struct conv_args *a, size_t packed_bytes);

#endif
