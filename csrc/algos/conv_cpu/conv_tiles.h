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
/* The tile that takes least time, pixels and filters beyond the edges included, among those whose input fits max_columns. */
struct conv_tile conv_best_tile(const struct problem *p, const struct conv_args *a, int max_columns);
/* Columns of the input under `pixels` neighbours of an output row. */
int conv_columns(const struct conv_args *a, int pixels);
/* The least max_columns that some tile fits. */
int conv_least_columns(const struct conv_args *a);
/* Packed weights: [groups][blocks of kv vectors of filters][blocks of c_block channels][R][S][c_block][kv * problem.block]. */
struct conv_packing conv_tile_packing(const struct problem *p, const struct conv_tile *tile, int c_block);
/* Work-items that keep every core busy until the end. */
size_t conv_wanted_items(const struct problem *p);

#endif
