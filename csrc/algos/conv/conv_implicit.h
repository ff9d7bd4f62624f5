/* conv_implicit.h: the portable matrix product behind other convolutions, kernels/conv/conv_implicit.cl. */
#ifndef CLCNN_ALGOS_CONV_IMPLICIT_H
#define CLCNN_ALGOS_CONV_IMPLICIT_H

#include "algos/conv/conv_common.h"
#include "conv/conv_args.h"

/* What is chosen: a tile, and between how many groups the depth is split. */
struct implicit_choice {
    const struct implicit_tile *tile;
    int split_k, share; /* chunks of each group */
    float time;         /* that is expected, see implicit_time() */
};
/* a is the convolution, p what its operands and epilogue are taken from: in[0] x, in[1] filters, in[2] bias; points as in
 * struct conv_packing. */
struct implicit_choice implicit_choose(const struct problem *p, const struct conv_args *a, int points);
size_t implicit_workspace(const struct problem *p, const struct conv_args *a, int points,
                          const struct implicit_choice *c);
/* Expected time by the model in conv_implicit.c, in multiply-adds of a compute unit. */
float implicit_time(const struct problem *p, const struct conv_args *a);
/* Returns the step, whose cost is the caller's to state. */
struct step *emit_implicit(struct emit *e, const struct problem *p, const struct conv_args *a, int points,
                           const struct implicit_choice *c);

#endif
