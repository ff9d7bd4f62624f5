/* reduction.h: reductions over any axes as walks over as few dimensions as there can be. */
#ifndef CLCNN_ALGOS_REDUCTION_H
#define CLCNN_ALGOS_REDUCTION_H

#include "algos/common/lines.h"

bool reduce_drops(const struct reduce_attrs *attrs, int dim);

/* What a reduction comes down to: where the work-items go. */
struct reduction {
    struct reduce_args args; /* of the last reduced dimension, one part */
    bool columns;            /* the innermost dimension is kept */
    int64_t outputs, length; /* length: of the last reduced dimension */
};
/* Depends on strides, which layouts change after applicable(), so that it is nothing to DECIDE. */
struct reduction reduction_of(const struct problem *p);
/* Cuts the last reduced dimension into up to `parts` parts, as many as scratch for their results allows. */
void reduction_cut(const struct problem *p, struct reduction *r, int64_t parts);
/* The pass over the results of parts, in scratch, where each output has them in a row; `first` will write them so. */
struct reduction reduction_second(struct reduction *first);
size_t reduction_workspace(const struct reduction *r);

#endif
