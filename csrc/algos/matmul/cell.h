/* cell.h: what the algorithms of lstm_cell and gru_cell share. */
#ifndef CLCNN_ALGOS_CELL_H
#define CLCNN_ALGOS_CELL_H

#include "plan/emit.h"
#include "matmul/gemm_args.h"

/* What in[] of either operator is, -1: it has none. */
struct cell {
    int gates, x, h, c, w, b;
};
extern const struct cell cell_lstm, cell_gru;

struct cell_args cell_args_of(const struct problem *p, const struct cell *c);
/* Operands, arguments and cost of a step whose weights are at the view `w`, `bytes` of them. */
void cell_finish(struct step *s, const struct problem *p, const struct cell *c, int w, size_t bytes);

#endif
