/* conv_rows.h: the register tile of the kernels for CPU devices (kernels/conv_cpu/conv_rows.clh). */
#ifndef CLCNN_ALGOS_CONV_ROWS_H
#define CLCNN_ALGOS_CONV_ROWS_H

#include "algos/conv/conv_common.h"
#include "conv/conv_args.h"

struct rows_tile {
    int t, kv; /* pixels of a row, float16 of filters */
};
/* Whether the input row of some tile fits the kernel's private row. */
bool rows_fits(const struct conv_args *a);
/* The tile that computes least beyond the output's edges; the first of equals. It covers whole windows of
 * `window` pixels, and pixels after the last whole window are not asked for. */
struct rows_tile rows_best_tile(const struct problem *p, const struct conv_args *a, int window);
/* Tiles of a row of windows. */
size_t rows_tiles(const struct conv_args *a, const struct rows_tile *tile, int window);
struct conv_packing rows_packing(const struct rows_tile *tile);
/* Defines of conv_rows.clh. */
void rows_define(struct step *s, const struct conv_args *a, const struct rows_tile *tile);

#endif
