/* attention_args.h: argument block of attention; the rules are those of args_base.h. */
#ifndef CLCNN_ATTENTION_ARGS_H
#define CLCNN_ATTENTION_ARGS_H

#include "common/strided_args.h"

/* y[n][h][l] = sum_s softmax_s(scale * q[n][h][l] . k[n][h][s] + mask[n % period][h][l][s]) v[n][h][s]
 * A mask in two parts is mask[n][h][l][s % wide] + outer[n][h][l][s / wide]. */
struct attention_args {
    /* strides: item of a run, head, row (of l or s), column (of d or e), run; of the mask: item, head, l, s, 0:
     * broadcast */
    i64 q[5], k[5], v[5], y[5], mask[4], outer[4];
    i32 n, heads, l, s, d, e; /* d columns of q and k, e of v and y */
    i32 period;               /* items after which the mask is used again */
    f32 scale;
    i32 wide, run; /* run: items side by side */
};
/* Elements before item n. */
#define ATTENTION_ITEM(n, stride, run) ((n) / (run) * (stride)[4] + (n) % (run) * (stride)[0])

/* attention_mma.cl: `split` warps share the rows of k and v, `share` rows each. channels: of a position of a result in
 * cores, which is times `up`. */
struct attention_mma_args {
    struct attention_args attention;
    i32 split, share, channels;
    f32 up;
};

/* Rotary embeddings: rotary_embedding_ref, _vector. */
struct rotary_args {
    struct strided_args walk; /* x, cos, sin, y */
    i64 columns;
};
struct rotary_vector_args {
    i64 x_n, cos_n, sin_n, y_n; /* batch strides */
    i64 rows, item_rows;        /* in all, of an item of x and y */
    i64 table_rows, table_item_rows;
    i64 row_run; /* rows of a group */
    i64 columns;
};

#endif
