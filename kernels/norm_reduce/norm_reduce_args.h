/* norm_reduce_args.h: argument blocks of normalisations, reductions and lines; the rules are those of args_base.h. */
#ifndef CLCNN_NORM_REDUCE_ARGS_H
#define CLCNN_NORM_REDUCE_ARGS_H

#include "common/blocked_args.h"
#include "common/strided_args.h"

/* One parameter a channel (batch_norm_ref): row r is (r / per_item, r % per_item), its parameters start at
 * (r % per_item) * row_step and column i has parameter i * column_step further. */
struct channel_args {
    i64 rows, inner, pieces, per_item;
    i64 x_n, y_n, add_n; /* batch strides */
    i32 row_step, column_step;
    f32 eps, p0, p1;
    i32 unused;
};

/* Cross-entropy of `rows` samples of `length` classes: x_n, dx_n: their strides. smoothing: share of all classes. */
struct cross_entropy_args {
    i64 rows, length, x_n, dx_n;
    f32 smoothing, unused;
};

/* Batch norm by the batch's own statistics, and its gradient: n items of c channels of `length` elements. y_n: of y, or
 * of dx. low, high: what results are clipped to. */
struct batch_norm_train_args {
    i64 x_n, dy_n, y_n, add_n, length;
    i32 n, c;
    f32 eps, low, high;
    f32 p0, p1; /* of the epilogue's activation */
    i32 unused;
};

/* The same on channel blocks, whose pixels are numbered item by item and cut into `parts` parts of `run`. */
struct channel_parts_args {
    i64 x_n, dy_n, y_n, add_n, run;
    i32 n, c, pixels, parts;
    f32 eps, low, high;
    i32 unused;
    struct blocked_epilogue epi; /* bias is 0: the shift is part of the sum */
};

/* The same in chunks of `chunk` elements, `parts` a channel (channel_chunks.clh). step_n, step_i: items and elements
 * that lie between a work-item's elements and its next ones. */
struct channel_chunks_args {
    i64 x_n, dy_n, y_n, add_n, length, step_i;
    i32 n, c, chunk, parts;
    i32 step_n;
    f32 eps, low, high;
    f32 p0, p1; /* of the epilogue's activation */
};

/* batch_norm of channel blocks. */
struct batch_norm_blocked_args {
    i64 x_n, y_n, add_n; /* batch strides */
    i32 c, pixels, run;  /* run: pixels of a work-item */
    f32 eps;
    struct blocked_epilogue epi; /* bias is 0: the shift is part of the sum */
};

/* Rows of elements that are normalised together, `parts` parts of `length` elements, part_step apart, and elements
 * `step` apart. Row r lies in item r / per_item, at number r % per_item, of which `step` ones interleave: number k
 * begins at k / step * length * step + k % step. Its element j has the parameters number (r % per_item) * row_step + j
 * / run. */
struct rows_norm_args {
    i64 rows, per_item, parts, length, step, x_n, y_n, x_part, y_part, row_step, run;
    f32 eps, p0, p1;  /* p0, p1: of the activation */
    i32 weight, bias; /* whether there are such operands */
    i32 unused;
};

/* Norms by rows (n, m) of `length` elements, x_step apart, `inner` rows side by side. plane: elements that share a
 * parameter, 0: each has its own; channels: parameters of a row. run: rows of a work-item. A row has `parts` parts of
 * part_length elements, or its columns have as many tiles. p0, p1: of the activation. */
struct norm_vector_args {
    i64 rows, inner, middle, x_n, y_n, middle_step, x_step, y_step, length;
    i64 plane, channels, run, parts, part_length;
    f32 eps, p0, p1;
    i32 weight, bias; /* whether there are such operands */
    i32 staged;       /* whether tiles of columns are kept in a stage */
};

/* Norms of the channels of positions, of all items, which have `plane` each; results are times `up`. p0, p1: of the
 * activation. */
struct norm_cores_args {
    i64 x_n;
    i32 positions, plane, channels;
    i32 weight, bias; /* whether there are such operands */
    f32 eps, p0, p1, up;
    i32 unused;
};

/* Norms on channel blocks. run: pixels of a part; group: channels that are normalised together; span: blocks of a
 * work-item. */
struct norm_blocked_args {
    i64 x_n, y_n, sums_n; /* batch strides */
    i32 c, pixels, run, parts, group, span;
    f32 eps, p0, p1;  /* p0, p1: of the activation */
    i32 weight, bias; /* whether there are such operands */
    i32 unused;
};

/* local_response_norm: a row is one (n, c). */
struct lrn_args {
    i64 rows, pieces, inner, x_n, y_n;
    i32 c, size;
    f32 alpha, beta, k; /* alpha is already divided by size */
    i32 unused;
};

/* softmax over l in x[n][m][l][i]; rows are numbered (n, m). pieces: pieces or tiles of the columns of a row; run: rows
 * of a work-item. */
struct softmax_args {
    i64 rows, pieces, inner, middle;
    i64 x_n, y_n, middle_step, x_step, y_step; /* x_step, y_step: between neighbours along l */
    i64 length, run;
};

/* Reductions: the first `kept` dimensions number the outputs, the others are reduced, the last one in the inner loop.
 * Its `parts` parts of up to `chunk` elements are rows of their own, with results side by side in y. */
struct reduce_args {
    i64 x[8], y[8];
    i64 rows, pieces, outer; /* outer: product of the reduced dimensions but the last */
    i64 parts, chunk;
    i32 size[8];
    i32 rank, kept;
    f32 divisor;
    i32 unused;
};

/* Reductions along one dimension of `length` elements, x_step apart: `kept` dimensions number the outputs, but for
 * `inner` ones side by side in x and y_step apart in y. Parts are as above; pieces: tiles of the inner ones. */
struct lanes_reduce_args {
    i64 x[8], y[8];
    i64 rows, pieces, inner, parts, chunk, length, x_step, y_step;
    i32 size[8];
    i32 kept;
    f32 divisor;
};

/* Lines along one dimension: the walk over all others, and the steps along it in each operand. */
struct line_args {
    struct strided_args walk;
    i64 step[3];
    i32 length, count;      /* elements of a line of x, and of the results */
    i32 exclusive, reverse; /* cumsum */
};

#define TOPK_FEW 8 /* results that topk_ref keeps in order in one pass */
/* topk_sorted, topk_places: `all` lines, which `groups` groups share. */
struct topk_args {
    struct line_args lines;
    i64 all;
    i32 groups, unused;
};

/* Reductions of elements of any type: the walk over what is kept, and the reduced dimensions of x. */
struct typed_reduce_args {
    struct strided_args walk;
    i64 x[8], count;
    i32 size[8];
    i32 rank;
    i32 unused;
};

#endif
