/* window_tile.h: host side of kernels/conv/window_tile.clh. */
#ifndef CLCNN_ALGOS_CONV_WINDOW_TILE_H
#define CLCNN_ALGOS_CONV_WINDOW_TILE_H

#include "plan/emit.h"
#include "conv/conv_args.h"

#define WINDOW_TILE_FITS "the window and the pixels of a row under it must fit registers"
bool window_tile_fits(const struct conv_args *a);
/* Tiles of `rows` rows and four columns of the maps of a filter, over the batch. */
size_t window_tiles(const struct conv_args *a, int rows);
/* All defines but FK. */
void step_define_window(struct step *s, const struct conv_args *a, int rows);

#endif
