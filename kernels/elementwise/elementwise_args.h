/* elementwise_args.h: argument blocks of element-wise functions; the rules are those of args_base.h. */
#ifndef CLCNN_ELEMENTWISE_ARGS_H
#define CLCNN_ELEMENTWISE_ARGS_H

#include "common/walk_args.h"

/* Rows cut into pieces as rows.clh tells: unary_ref. */
struct unary_args {
    i64 rows, inner, pieces, x_n, y_n;
    f32 p0, p1;
};

struct dropout_args {
    i64 rows, inner, pieces, x_n, y_n, run; /* run: elements of a piece, of dropout_train_vector */
    i64 least;                              /* of the numbers from 0 to 2^32 - 1, the first that keeps its element */
    f32 scale;
    i32 layer;
};

/* Up to four functions one after the other, with their numbers. */
struct elementwise_together_args {
    struct walk_args walk;
    f32 p0[4], p1[4];
};

struct unary_walk_args {
    struct walk_args walk;
    f32 p0, p1;
};

/* Rows of `vectors` vectors, the last one of which may be a part, and what of them a group computes
 * (vector_rows.clh). */
struct vector_rows {
    i64 count, row_run, vectors, run;
    i32 blocks, lanes; /* every blocks-th row has so many lanes that count */
};

struct unary_vector_args {
    i64 x_n, y_n, inner; /* inner: elements of a row */
    struct vector_rows rows;
    f32 p0, p1;
};

/* How the vectors of a row of an operand lie: vector_walk.clh. */
enum vector_step { VECTOR_STEP, SAME_VECTOR, SAME_VALUE, EACH_VALUE };

/* vector_walk.clh; stride[2]: of the result. */
struct binary_vector_args {
    struct {
        i64 of[8];
    } stride[3];
    i64 inner, channel_step[2]; /* channel_step: between neighbours of a SAME_VECTOR */
    struct vector_rows rows;
    i32 size[8];
    i32 step[2];
    i32 rank;
    i32 unused;
};

/* The same of up to four functions one after the other, with their numbers: x, their operands, the result. */
struct elementwise_vector_args {
    struct {
        i64 of[5];
    } stride[6];
    i64 inner, channel_step[5];
    struct vector_rows rows;
    i32 size[5];
    i32 step[5];
    i32 rank;
    i32 unused;
    f32 p0[4], p1[4];
};

#endif
