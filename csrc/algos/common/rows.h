/* rows.h: what the algorithms that walk over rows of elements share (the host's side of kernels/common/rows.clh). */
#ifndef CLCNN_ALGOS_ROWS_H
#define CLCNN_ALGOS_ROWS_H

#include "plan/emit.h"
#include "norm_reduce/norm_reduce_args.h"

enum { GPU_RESIDENT = 2048 }; /* work-items that a GPU's compute unit holds at once */

/* `applicable` of an algorithm without limits. */
bool rows_always(const struct problem *p, struct why *why);

/* A step over `rows` rows of `inner` elements, with the defines of rows.clh; *pieces goes into the
 * argument block. */
struct step *rows_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                       int64_t rows, int64_t inner, i64 *pieces);
/* As rows_step for reductions over rows: LANES work-items a row of `length` elements (a power of two, 1 on
 * a CPU), and WG / LANES rows a group. */
struct step *lanes_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                        int64_t rows, int64_t length);
/* Floats of a CPU's vector for so many that lie side by side: those of a channel block, or eight where they are fewer. */
int rows_vector(const struct problem *p, int64_t side_by_side);
/* Bytes with every operand read or written once. */
void rows_cost(struct step *s, const struct problem *p, double macs);

/* Distance in elements between neighbours along each dimension. */
void operand_strides(const struct operand *o, int64_t stride[CLCNN_MAX_RANK]);
/* Strides for reading o as if it had the shape `to`: NumPy broadcasting, 0 along repeated dimensions. */
void operand_broadcast(const struct operand *o, const struct clcnn_shape *to, int64_t stride[CLCNN_MAX_RANK]);
/* The first `count` strides of a view of it, in elements. */
void operand_view_strides(const struct operand_view *view, const struct operand *o, int count, i64 *out);
/* An operand as items of contiguous elements: one item when it is dense. */
struct items {
    int64_t count, size, stride;
};
struct items operand_items(const struct operand *o);

/* rows, inner, per_item, steps and add_n of a walk over all of y, for one parameter an entry of dimension
 * `channel_dim` (1, or the last one). */
struct channel_args channel_args_of(const struct problem *p, int channel_dim);

/* Merges neighbouring dimensions that are one walk for all operands; returns how many are left. */
int merge_dims(int rank, int32_t *size, int64_t (*stride)[CLCNN_MAX_RANK], int operands);
/* Sizes and the strides of `operands` operands, merged where neighbouring dimensions are one walk for all
 * of them. */
void strided_merge(struct strided_args *a, int operands);
/* The dimension along which the first operand is contiguous; the last one when there is none. */
int strided_contiguous_dim(const struct strided_args *a);
/* Defines and operand of a norm's epilogue, whose bias is part of the sum: EPI_ADD, EPI_ACT, ADD_HALF; reads add (VIEW_NONE when
 * absent). */
void norm_epilogue(struct step *s, const struct problem *p);
/* Merges and emits; buffers and arguments are still to be added. Defines STEP<i>: the inner stride of
 * operand i when it is 0 or 1, else 2. */
struct step *strided_step(struct emit *e, const struct problem *p, const char *file, struct strided_args *a,
                          int operands);

#endif
