/* mma_tiles.h: tiles of products whose operands lie in local memory as they came (kernels/conv_nvidia/mma_tile.clh). */
#ifndef CLCNN_ALGOS_MMA_TILES_H
#define CLCNN_ALGOS_MMA_TILES_H

#include "algos/conv_nvidia/conv_mma_common.h"

#define MMA_DEPTH_UNIT 16 /* that times are counted in */

/* What a group of `size` work-items computes, `wm` warps side by side along rows, `chunk` of depth between two barriers.
 * Times as those of the tiles in conv_mma_common.c. */
struct mma_tile_shape {
    short rows, columns, size, wm, chunk, resident;
    float busy, alone, start;
    float one_busy, one_alone; /* with one product in the place of three; 0: not known */
};
enum { MMA_TILE_SHAPES = 7 };
extern const struct mma_tile_shape mma_tile_shapes[MMA_TILE_SHAPES];

/* Expected ns of `groups` groups, each of which computes a tile over `share` chunks of depth. */
float mma_tiles_time(const struct problem *p, const struct mma_tile_shape *t, enum mma_products products,
                     size_t groups, int share);
/* Defines of a step that computes such tiles. */
void mma_tile_defines(struct step *s, const struct mma_tile_shape *t);

#endif
