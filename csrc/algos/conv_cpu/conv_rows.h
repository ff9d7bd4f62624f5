/* conv_rows.h: the register tile of the kernels for CPU devices (kernels/conv_cpu/conv_rows.clh). */
#ifndef CLCNN_ALGOS_CONV_ROWS_H
#define CLCNN_ALGOS_CONV_ROWS_H

#include "algos/conv/conv_common.h"
#include "conv/conv_args.h"

struct row_tile {
    int t, kv; /* pixels of a row, float16 of filters */
};
/* Whether the input row of some tile fits the kernel's private row. */
bool row_tile_fits(const struct conv_args *a);
/* The tile that computes least beyond the output's edges; the first of equals. It covers whole windows of
 * `window` pixels, and pixels after the last whole window are not asked for. */
struct row_tile row_tile_best(const struct problem *p, const struct conv_args *a, int window);
/* Tiles of a row of windows. */
size_t row_tile_count(const struct conv_args *a, const struct row_tile *tile, int window);
struct conv_packing row_tile_packing(const struct row_tile *tile);
/* Defines of conv_rows.clh. */
void row_tile_define(struct step *s, const struct conv_args *a, const struct row_tile *tile);

#endif
