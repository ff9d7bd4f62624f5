/* conv_strassen.h: Strassen's products of a 1x1 convolution (kernels/conv_strassen.cl), whose right factors a step of the caller's
 * makes. */
#ifndef CLCNN_ALGOS_CONV_STRASSEN_H
#define CLCNN_ALGOS_CONV_STRASSEN_H

#include "algos/conv_common.h"

/* How a problem is cut. */
struct strassen_cut {
    int t, kv;
    size_t c_blocks, k_blocks; /* of a half: blocks of channels, blocks of filters */
    size_t pairs, all;         /* pairs of tiles: of an image, of the batch */
    size_t slice, per_item;    /* pairs of a step, of a work-item */
    size_t pair_bytes;         /* of the right factors */
};
struct strassen_cut strassen_cut_of(const struct problem *p, const struct conv_args *a);

/* For REQUIRE: halves of the channels and of the filters are whole blocks. */
#define NO_HALVES "halves of the channels and of the filters must be whole blocks"
bool strassen_halves(const struct problem *p, const struct conv_args *a);

/* Time in multiply-adds at the peak. */
double strassen_cost(const struct strassen_cut *c, const struct conv_args *a);
size_t strassen_workspace(const struct problem *p);

/* Emits the step that writes the right factors of args->count pairs from args->first on. */
typedef void strassen_spread(struct emit *e, const struct strassen_cut *c, int factors,
                             const struct conv_strassen_args *args, const void *with);
/* p: the 1x1 convolution. */
void emit_strassen(struct emit *e, const struct problem *p, strassen_spread *spread, const void *with);

#endif
