/* conv_filter_grad_mma.h: what the gradients of filters by tensor cores share. */
#ifndef CLCNN_ALGOS_CONV_FILTER_GRAD_MMA_H
#define CLCNN_ALGOS_CONV_FILTER_GRAD_MMA_H

#include "algos/conv/conv_filter_grad.h"
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/conv_nvidia/mma_tiles.h"

/* A tile, and how its depth is split: `share` chunks for each of split_k groups; the expected ns. */
struct filter_grad_choice {
    const struct mma_tile_shape *tile;
    int split_k, share;
    float time;
};

/* The best of some tiles for a depth of `chunks` of theirs; `scratch`: bytes of workspace that are taken anyway. */
struct filter_grad_choice filter_grad_choose(const struct problem *p, const struct conv_args *a,
                                             const struct mma_tile_shape *tiles, int count, size_t chunks,
                                             size_t scratch);
/* The same for the tiles of mma. */
struct filter_grad_choice filter_grad_choose_mma(const struct problem *p, const struct conv_args *a);
/* Expected ns by one product of tf32, by the faster of its kernels. */
float filter_grad_time_tf32(const struct problem *p);
size_t filter_grad_parts_bytes(const struct conv_args *a, int split_k);
size_t filter_grad_groups(const struct conv_args *a, const struct filter_grad_choice *c);
/* What places of results have to do with the choice; the rest is left to the caller. */
struct filter_grad_mma_args filter_grad_mma_args(const struct conv_args *a,
                                                 const struct filter_grad_choice *c);
/* Whether the pixels of an image can be counted by the kernels. */
bool filter_grad_fits(const struct conv_args *a);

#endif
