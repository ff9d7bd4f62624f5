/* conv_stem.h: register tiles from a row-major map of few channels to channel blocks; see kernels/conv_cpu/conv_stem.clh. */
#ifndef CLCNN_ALGOS_CONV_STEM_H
#define CLCNN_ALGOS_CONV_STEM_H

#include "algos/conv_cpu/conv_tiles.h"
#include "conv_cpu/stem_args.h"

/* What conv_stem REQUIREs, also where it is a part of another operator. */
bool stem_possible(const struct problem *conv, struct why *why);
int stem_columns(const struct problem *p, const struct conv_args *a); /* that the private rows hold at most */
struct conv_tile stem_tile(const struct problem *p, const struct conv_args *a);
struct conv_packing stem_packing(const struct problem *p, const struct conv_tile *tile);
/* Of work-items that compute per_item tiles of a row each; p has the epilogue. */
struct conv_stem_args stem_args(const struct problem *p, const struct conv_args *a,
                                const struct conv_tile *tile, int per_item);
void stem_define(struct step *s, const struct problem *p, const struct conv_args *a,
                 const struct conv_tile *tile);

#endif
