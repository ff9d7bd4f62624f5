/* cell.h: what the algorithms of lstm_cell and gru_cell share, and those of lstm and gru. */
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
/* GATES and operands of a step whose weights are at the view `w`. */
void cell_operands(struct step *s, const struct problem *p, const struct cell *c, int w);
/* These, arguments and cost, of weights of so many bytes. */
void cell_finish(struct step *s, const struct problem *p, const struct cell *c, int w, size_t bytes);

#endif
