/* pads.h: what the algorithms of padding share. */
#ifndef CLCNN_ALGOS_PADS_H
#define CLCNN_ALGOS_PADS_H

#include "algos/common/rows.h"
#include "move/move_args.h"

/* Sizes and strides, dimensions merged; *offset: where the part of x begins that is not cropped. */
struct pad_args pad_args_of(const struct problem *p, int64_t *offset);
/* SOURCE and the type of a step's elements, and its operands. */
void pad_step(struct step *s, const struct problem *p, int64_t offset);

#endif
