/* sequence.h: what the algorithms of lstm and gru share. */
#ifndef CLCNN_ALGOS_SEQUENCE_H
#define CLCNN_ALGOS_SEQUENCE_H

#include "algos/matmul/cell.h"

struct sequence_args sequence_args_of(const struct problem *p, const struct cell *c);
/* Defines, operands, arguments and cost of a step of the plan whose weights are at the view `w`, `bytes` of them. */
void sequence_finish(struct step *s, const struct problem *p, const struct cell *c, int w, size_t bytes);
/* The layer by its definition. */
struct step *sequence_emit_ref(const struct problem *p, struct emit *e, const struct cell *c);

#endif
