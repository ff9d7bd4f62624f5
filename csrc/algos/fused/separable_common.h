/* separable_common.h: a separable problem as the two convolutions that it stands for. */
#ifndef CLCNN_ALGOS_SEPARABLE_COMMON_H
#define CLCNN_ALGOS_SEPARABLE_COMMON_H

#include "algos/conv/conv_common.h"
#include "fused/separable_args.h"

/* The problems point into this struct: do not copy it. */
struct separable {
    struct operand dw_in[3], mid, pw_in[3]; /* mid has no view yet */
    struct conv_attrs pw_attrs;
    struct problem dw, pw;
};
void separable_parts(const struct problem *p, struct separable *out);

/* An inverted residual as a 1x1 convolution and a separable problem; the same holds. */
struct inverted {
    struct operand expand_in[3], wide, tail_in[5]; /* wide has no view yet */
    struct conv_attrs expand_attrs;
    struct problem expand, tail;
};
void inverted_parts(const struct problem *p, struct inverted *out);

/* Register tiles of t pixels, computed dt at a time by the depthwise part, x kv vectors of filters; cost of one multiply-add
 * with 16-float vectors, measured. Those for the device's vectors: narrow machines have half the registers. */
struct separable_tile {
    int t, dt, kv;
    double cost;
};
const struct separable_tile *separable_tiles(const struct problem *p, int *count);

/* Of the algorithms that compute the parts one after the other: always, and on channel blocks. */
bool parts_applicable(const struct problem *p, struct why *why);
bool blocked_parts_applicable(const struct problem *p, struct why *why);

/* For the kernels that do both at once (1-D and 2-D problems). */
struct separable_args separable_args_of(const struct problem *p);
/* Appends their step: x, dw weights and bias, packed pw weights, epilogue, y; defines of the middle. */
struct step *emit_separable(struct emit *e, const struct problem *p, const char *file, size_t groups,
                            size_t group_size, struct conv_packing packing);
/* On channel blocks: the defines of the middle but DT (depthwise_tile.clh), and x, packed dw weights and bias; makes a clip of the
 * activation, whose bounds are in `a`. */
void blocked_middle(struct step *s, const struct separable *parts, int packed, struct separable_args *a);
/* The same without x. */
void blocked_middle_of(struct step *s, const struct separable *parts, int packed, struct separable_args *a);
/* Multiply-adds, and bytes with every operand but the middle read or written once. */
void separable_cost(struct step *s, const struct problem *p, const struct separable_args *a);
/* algo_def.effort_of() of one whose 1x1 convolution takes so many multiply-adds at the peak. */
double separable_effort(const struct conv_args *dw, const struct conv_args *pw, double cost);
size_t separable_packing_workspace(const struct problem *p, struct conv_packing packing);

#endif
