/* ecr.h: how work-groups of kernels/conv/ecr.clh are cut. */
#ifndef CLCNN_ALGOS_ECR_H
#define CLCNN_ALGOS_ECR_H

#include "algos/conv/conv_common.h"
#include "conv/ecr_args.h"

struct ecr_cut {
    int wg;
    int lanes, vectors; /* work-items side by side along the filters, 4-vectors of filters of each */
    int pixels;         /* of a team, the work-items of one block of filters */
};
/* For a convolution whose teams take `pixels` pixels; 0: as many as suit. */
struct ecr_cut ecr_cut_of(const struct problem *p, const struct conv_args *a, int pixels);
int ecr_group_pixels(const struct ecr_cut *cut); /* of a work-group */
struct conv_packing ecr_packing(const struct ecr_cut *cut);
/* Appends the step for so many blocks of pixels; the rest of its operands is the caller's. */
struct step *emit_ecr(struct emit *e, const struct conv_args *a, const struct ecr_cut *cut, const char *file,
                      size_t pixels);

#endif
