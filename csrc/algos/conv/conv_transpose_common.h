/* conv_transpose_common.h: what the algorithms of transposed convolutions share. */
#ifndef CLCNN_ALGOS_CONV_TRANSPOSE_COMMON_H
#define CLCNN_ALGOS_CONV_TRANSPOSE_COMMON_H

#include "algos/conv/conv_common.h"
#include "algos/conv/conv_phases.h"

/* conv_args_of(), with strides as conv_phases_of_pixels() sets them. */
struct conv_args conv_transpose_args_of(const struct problem *p);
/* The weights [C][K/groups][R][S] packed [groups][blocks of filters][R][S][C/groups rounded up to c_block][block], zeros for
 * what is missing. */
struct conv_packing conv_transpose_packing(const struct conv_args *a, int block, int c_block);
/* The argument block of row-major maps; tiles: of the largest phase, over the batch. */
struct conv_transpose_args conv_transpose_block(const struct conv_args *a, size_t tiles, int split_k);
/* The argument block of maps on channel blocks but for how tiles are shared out; its depth is one of images. */
struct conv_transpose_blocked_args conv_transpose_blocked_block(const struct problem *p,
                                                                const struct conv_args *a);
/* A step whose work-items compute a column of a block of rows each: its defines KH, KW, SH, SW, DH, ROWS and INDEX. Blocks begin
 * where a row with its padding is a multiple of the stride, which is at most MOST_COLUMN_STRIDE. */
enum { MOST_COLUMN_STRIDE = 32 };
struct step *conv_transpose_columns(struct emit *e, const struct problem *p, const char *file,
                                    const struct conv_args *a);
/* Multiply-adds of a transposed convolution, and bytes with every operand read or written once. */
void conv_transpose_cost(struct step *s, const struct problem *p);

#endif
