/* grid.h: what the algorithms of grid_sample share. */
#ifndef CLCNN_ALGOS_GRID_H
#define CLCNN_ALGOS_GRID_H

#include "algos/common/rows.h"
#include "vision/vision_args.h"

/* Geometry; pieces are left to the algorithm. */
struct grid_args grid_args_of(const struct problem *p);
/* Defines, operands and arguments of a step. */
void grid_step(struct step *s, const struct problem *p, const struct grid_args *a);

#endif
