/* lines.h: walks over the lines along one dimension (struct line_args), and over what a reduction keeps. */
#ifndef CLCNN_ALGOS_LINES_H
#define CLCNN_ALGOS_LINES_H

#include "algos/common/rows.h"
#include "norm_reduce/norm_reduce_args.h"

/* Operand number `at` of the walk is o; x has the shape of the whole, of which o may lack dimension `dim`. */
void lines_operand(struct line_args *a, int at, const struct operand *o, const struct clcnn_shape *x,
                   int dim);

/* Emits the product of floats, or any reduction of other elements: kernels/norm_reduce/reduce_typed.cl. `red` is a function of
 * integer.clh or binary.clh. */
void emit_reduce_typed(const struct problem *p, struct emit *e, const char *red);

#endif
