/* transposes.h: what transposes that move the innermost dimension share. */
#ifndef CLCNN_ALGOS_TRANSPOSES_H
#define CLCNN_ALGOS_TRANSPOSES_H

#include "algos/common/rows.h"
#include "move/move_args.h"

/* The permuted view of x beside y, merged. */
struct strided_args transpose_view(const struct problem *p);
/* Whether tiles of floats move: x and y are contiguous along different dimensions. */
bool transpose_fits(const struct problem *p, const struct strided_args *a, struct why *why);
/* In tiles of `tall` along x's contiguous dimension by `broad` along y's; *tiles: in all. */
struct transpose_args transpose_args_of(const struct strided_args *v, int tall, int broad, size_t *tiles);
/* The operands, arguments and cost of the step. */
void transpose_finish(struct step *s, const struct problem *p, const struct transpose_args *a);

#endif
