/* copies.h: the operators that move elements without changing them, as strided copies; how a copy is made is left to an
 * algorithm. */
#ifndef CLCNN_ALGOS_COPIES_H
#define CLCNN_ALGOS_COPIES_H

#include "algos/common/rows.h"

/* Where one side of a copy lives. */
struct end {
    int view;
    int64_t offset; /* elements from the view's first */
};

/* What is done with each copy of a layer: operand 0 of the walk is read, operand 1 is written. */
typedef void copy_fn(const struct problem *p, void *to, struct end x, struct end y, struct strided_args *a);

void concat_copies(const struct problem *p, copy_fn *copy, void *to);
void split_copies(const struct problem *p, copy_fn *copy, void *to);
void slice_copies(const struct problem *p, copy_fn *copy, void *to);
void transpose_copies(const struct problem *p, copy_fn *copy, void *to);
void expand_copies(const struct problem *p, copy_fn *copy, void *to);

/* Operands and costs of a step that makes a copy. */
void copy_step(struct step *s, const struct problem *p, struct end x, struct end y, int64_t elements);
/* The type of the elements and the costs alone. */
void copy_cost(struct step *s, const struct problem *p, int64_t elements);

#endif
