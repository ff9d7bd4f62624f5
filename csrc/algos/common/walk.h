/* walk.h: what GPUs' algorithms share that walk over elements by number (the host's side of kernels/common/walk.clh). */
#ifndef CLCNN_ALGOS_WALK_H
#define CLCNN_ALGOS_WALK_H

#include "algos/common/rows.h"
#include "common/walk_args.h"

/* For REQUIRE and PREFER. */
#define WALK_TOO_LARGE "more dimensions or elements than its numbers can tell"
#define WALK_FOR_GPUS "a CPU is faster with runs of elements"

/* The walk over sizes and strides of `operands` operands, the result last; false when it is too large. Merges dimensions first. */
bool walk_of(struct walk_args *w, struct strided_args *a, int operands);
bool walk_as_it_is(struct walk_args *w, const struct strided_args *a, int operands);
/* What divides a number below 2^31 by a size. */
void walk_division(int32_t size, i32 *factor, i32 *shift);
/* A step with the defines of walk.clh. */
struct step *walk_step(struct emit *e, const struct problem *p, const char *file, const struct walk_args *w);

#endif
