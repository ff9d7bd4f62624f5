/* conv_tiles.h: register tiles of the convolutions with blocked results. */
#ifndef CLCNN_ALGOS_CONV_TILES_H
#define CLCNN_ALGOS_CONV_TILES_H

#include "algos/common/blocked.h"

/* t pixels of an output row by kv vectors of problem.block filters. `cost`: the measured time of a multiply-add over that of
 * the widest tile. */
struct conv_tile {
    int t, kv;
    double cost;
};
/* What `pixels` take by this tile, pixels and filters beyond the edges included, in multiply-adds for each channel and tap. */
double conv_tile_work(const struct problem *p, const struct conv_args *a, const struct conv_tile *tile,
                      size_t pixels);
/* The tile that takes least time, among those whose input fits max_columns and that are `known` (kernel_known()); where none is, the
 * one whose kernel is soon built. */
typedef bool conv_tile_known(const struct problem *p, const struct conv_args *a,
                             const struct conv_tile *tile);
struct conv_tile conv_best_tile(const struct problem *p, const struct conv_args *a, int max_columns,
                                conv_tile_known *known);
/* Columns of the input under `pixels` neighbours of an output row. */
int conv_columns(const struct conv_args *a, int pixels);
/* The least max_columns that some tile fits. */
int conv_least_columns(const struct conv_args *a);
/* Packed weights: [groups][blocks of kv vectors of filters][blocks of c_block channels][R][S][c_block][kv * problem.block]. */
struct conv_packing conv_tile_packing(const struct problem *p, const struct conv_tile *tile, int c_block);
/* Work-items that keep every core busy until the end. */
size_t conv_wanted_items(const struct problem *p);

/* How tiles are shared out: a work-item computes per_item of an image's tiles, one of `chunks`, for a block of filters; chunks come
 * in spans, whose input stays in a core's cache for all filters. */
struct conv_shares {
    size_t chunks, per_item, span;
};
/* Of n images with `tiles` tiles and `input` bytes each, for `blocks` blocks of filters. */
struct conv_shares conv_shares_of(const struct problem *p, size_t n, size_t tiles, size_t blocks,
                                  size_t input);
/* Blocks of input channels, of `blocks`, whose weights serve a work-item's tiles before the next ones: `most` bytes of them where not
 * all fit. */
size_t conv_channel_step(const struct problem *p, const struct conv_tile *tile, size_t taps, size_t blocks,
                         size_t most);

#endif
