/* roi.h: what the operators on regions of interest share. */
#ifndef CLCNN_ALGOS_ROI_H
#define CLCNN_ALGOS_ROI_H

#include "algos/common/rows.h"
#include "vision/vision_args.h"

/* Geometry of a pooling of regions; pieces, offset and least are left to the operator. */
struct roi_args roi_args_of(const struct problem *p);
/* Those of roi_align; pieces are left to the algorithm. */
struct roi_args roi_align_args(const struct problem *p);
/* Defines MOST and I, and all operands. */
void roi_align_operands(struct step *s, const struct problem *p);

#endif
