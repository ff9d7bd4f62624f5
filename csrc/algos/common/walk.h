/* walk.h: what GPUs' algorithms share that walk over elements by number (the host's side of kernels/common/walk.clh). */
#ifndef CLCNN_ALGOS_WALK_H
#define CLCNN_ALGOS_WALK_H

#include "algos/common/rows.h"
#include "common/walk_args.h"

/* For REQUIRE. */
#define WALK_TOO_LARGE "more dimensions or elements than its numbers can tell"

/* What is walked over; the last operand is the result. */
struct walk_sizes {
    int rank, operands;
    int32_t size[CLCNN_MAX_RANK];
    int64_t stride[WALK_MOST][CLCNN_MAX_RANK];
};
/* The sizes of y; the strides are to be filled. */
struct walk_sizes walk_sizes_of(const struct operand *y, int operands);
/* Makes dimensions that are one walk for all operands one. */
void walk_merge(struct walk_sizes *s);
/* False when they are too large. */
bool walk_of(struct walk_args *w, const struct walk_sizes *s);
/* What divides a number below 2^31 by a size. */
void walk_division(int32_t size, i32 *factor, i32 *shift);
/* A step with the defines of walk.clh. */
struct step *walk_step(struct emit *e, const struct problem *p, const char *file, const struct walk_args *w);

#endif
