/* conv_implicit.h: the portable matrix product behind other convolutions, kernels/conv/conv_implicit.cl, and what the one of
 * transposed convolutions shares with it. */
#ifndef CLCNN_ALGOS_CONV_IMPLICIT_H
#define CLCNN_ALGOS_CONV_IMPLICIT_H

#include "algos/conv/conv_common.h"
#include "conv/conv_args.h"

enum { IMPLICIT_CHUNK = 16 /* of depth between two barriers */, IMPLICIT_MAX_SPLIT_K = 16 };

/* Filters and pixels of a group's tile of the result. The small one comes first and fits any device's 32 KiB of local memory. */
struct implicit_tile {
    int filters, pixels;
};
enum { IMPLICIT_TILES = 4 };
extern const struct implicit_tile implicit_tiles[IMPLICIT_TILES];
bool implicit_tile_fits(const struct implicit_tile *t, const struct clcnn_device_info *device);
/* Expected time of `groups` groups, each of which adds up `share` chunks, and of adding up split_k partial sums, in multiply-adds
 * of a compute unit. */
float implicit_tile_time(const struct problem *p, const struct conv_args *a, const struct implicit_tile *t,
                         size_t groups, int split_k, size_t share);
/* Of that, what writing and adding up partial sums takes: nothing where there is one. */
float split_k_time(const struct problem *p, const struct conv_args *a, int split_k);

/* What is chosen: a tile, and between how many groups the depth is split. */
struct implicit_choice {
    const struct implicit_tile *tile;
    int split_k, share; /* chunks of each group */
    float time;         /* that is expected, see implicit_tile_time() */
};
/* a is the convolution, p what its operands and epilogue are taken from: in[0] x, in[1] filters, in[2] bias; points as in
 * struct conv_packing. */
struct implicit_choice implicit_choose(const struct problem *p, const struct conv_args *a, int points);
size_t implicit_workspace(const struct problem *p, const struct conv_args *a, int points,
                          const struct implicit_choice *c);
/* Expected time of what would be chosen. */
float implicit_time(const struct problem *p, const struct conv_args *a);
/* Returns the step, whose cost is the caller's to state. */
struct step *emit_implicit(struct emit *e, const struct problem *p, const struct conv_args *a, int points,
                           const struct implicit_choice *c);

#endif
