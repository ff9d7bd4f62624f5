/* vector_rows.h: what element-wise work on vectors shares (the host's side of kernels/elementwise/vector_rows.clh). */
#ifndef CLCNN_ALGOS_VECTOR_ROWS_H
#define CLCNN_ALGOS_VECTOR_ROWS_H

#include "algos/common/rows.h"
#include "elementwise/elementwise_args.h"

/* `applicable` of the algorithms on vectors. */
bool vector_applicable(const struct problem *p, struct why *why);

/* Strides for reading o as if it had the shape of the result; a list of slopes is one a channel. */
void broadcast_strides(const struct problem *p, const struct operand *o, int64_t stride[CLCNN_MAX_RANK]);

/* Cuts `count` rows of `inner` elements into groups: sets what `rows` says of them, and returns how many groups there are. */
size_t vector_groups(const struct problem *p, struct vector_rows *rows, int64_t count, int64_t inner);
/* Rows of channel blocks: how many rows an item has, and how many channels the last one. */
void vector_channels(const struct problem *p, struct vector_rows *rows);
/* A step of so many groups. */
struct step *vector_step(struct emit *e, const struct problem *p, const char *file, size_t groups);

/* How all inputs are broadcast to the result: kernels/elementwise/vector_walk.clh. */
#define VECTOR_INPUTS 5
struct vector_walk {
    int64_t stride[VECTOR_INPUTS + 1][CLCNN_MAX_RANK]; /* the last one's: of the result */
    int64_t inner, channel_step[VECTOR_INPUTS];
    struct vector_rows rows;
    int32_t size[CLCNN_MAX_RANK];
    enum vector_step step[VECTOR_INPUTS];
    int rank;
};
/* Returns how many groups there are. */
size_t vector_walk_of(const struct problem *p, struct vector_walk *a);

#endif
