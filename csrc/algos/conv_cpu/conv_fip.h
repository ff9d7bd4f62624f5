/* conv_fip.h: 1x1 convolutions by the fast inner product (kernels/conv_cpu/fip.clh). */
#ifndef CLCNN_ALGOS_CONV_FIP_H
#define CLCNN_ALGOS_CONV_FIP_H

#include "algos/conv_cpu/conv_scaled.h"
#include "algos/cost/cost.h"
#include "conv_cpu/fip_args.h"

/* For REQUIRE. */
#define FIP_TOO_LARGE "a tile of up to 4096 channels must fit local memory"
/* Its time over that of register tiles: less than theirs where adders work beside the multiply-adders. `a`: the 1x1 convolution. */
double fip_ratio(const struct problem *p, const struct conv_args *a);
/* For PREFER. */
#define NO_ADDERS "additions take the multiply-adders' time (but on AMD's processors with AVX-512)"
bool fip_pays(const struct problem *p, const struct conv_args *a);
#define FEW_FILTERS "few filters: scaling pixels takes what the products save"

/* How y, maps of a.out[1] rows of a.out[2] pixels, and the filters are cut. */
struct fip_cut {
    int t, kv;                 /* a register tile: pixels, vectors of filters */
    size_t c_blocks, k_blocks; /* blocks of channels, blocks of filters */
    size_t across, tiles, all; /* tiles of a row, of an image, of the batch */
    size_t held, groups;       /* bytes of a group's tiles; groups, 0: none keeps a tile in so many bytes */
    bool by_filters;           /* groups have all tiles of a part of the filters */
};
struct fip_cut fip_cut_of(const struct problem *p, const struct conv_args *a);
struct fip_shape fip_shape_of(const struct problem *p, const struct conv_args *a, const struct fip_cut *c);

/* The steps that pack the filters. p: the 1x1 convolution. */
struct scaled_filters emit_fip_filters(struct emit *e, const struct problem *p, const struct conv_args *a,
                                       const struct fip_cut *c);
size_t fip_filter_workspace(const struct problem *p, const struct conv_args *a, const struct fip_cut *c);
/* The step that multiplies, which has no cost yet. `rows`: x and y are rows, a row a pixel of an image of one row, `x_row` and `y_row`
 * elements apart; else channel blocks, and these are 0. */
struct step *emit_fip_products(struct emit *e, const struct problem *p, const struct conv_args *a,
                               const struct fip_cut *c, int64_t x_row, int64_t y_row);
/* Defines of fip.clh, and FIP_HELD. */
void fip_define(struct step *s, const struct problem *p, const struct fip_cut *c);

#endif
