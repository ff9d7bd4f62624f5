/* sequence.h: what the algorithms of lstm and gru share. */
#ifndef CLCNN_ALGOS_SEQUENCE_H
#define CLCNN_ALGOS_SEQUENCE_H

#include "algos/matmul/cell.h"

struct sequence_args sequence_args_of(const struct problem *p, const struct cell *c);
/* Defines, operands, arguments and cost of a step of the plan whose weights are at the view `w`, `bytes` of them. */
void sequence_finish(struct step *s, const struct problem *p, const struct cell *c, int w, size_t bytes);
/* How an algorithm has its weights: made by entry pack of `file`, for DEPTH values of the state. */
struct sequence_packing {
    const char *file;
    int depth;
    size_t bytes, groups, group_size;
};
/* The view of the packed weights. */
int sequence_weights(const struct problem *p, struct emit *e, const struct cell *c,
                     const struct sequence_packing *packing);
/* The algorithm `of` for lstm or gru of a file that has applicable(), packing(p, c) and emit_whole(p, e, c). */
#define SEQUENCE_PACKED(op, of, devices_, text)                                \
    static size_t op##_workspace(const struct problem *p)                      \
    {                                                                          \
        return p->in[cell_##op.w].constant ? 0 : packing(p, &cell_##op).bytes; \
    }                                                                          \
    static void op##_emit(const struct problem *p, struct emit *e)             \
    {                                                                          \
        emit_whole(p, e, &cell_##op);                                          \
    }                                                                          \
    const struct algo_def algo_##op##_##of = {                                 \
        .name = #of,                                                           \
        .doc = text,                                                           \
        .devices = devices_,                                                   \
        .error = ERROR_STRICT,                                                 \
        .deterministic = true,                                                 \
        .applicable = applicable,                                              \
        .workspace = op##_workspace,                                           \
        .emit = op##_emit,                                                     \
    }
/* The layer by its definition. */
struct step *sequence_emit_ref(const struct problem *p, struct emit *e, const struct cell *c);

#endif
