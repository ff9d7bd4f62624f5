/* gemm_args.h: argument blocks of matrix products; the rules are those of args_base.h. */
#ifndef CLCNN_GEMM_ARGS_H
#define CLCNN_GEMM_ARGS_H

#include "common/args_base.h"

/* Matrix products y[b] = alpha a[b] b[b] + beta c + add[b]: see gemm_operands.clh. */
struct gemm_args {
    i64 a_b[6], b_b[6];     /* strides of a and b along the batch dimensions, 0: broadcast */
    i64 y_b[6], add_b[6];   /* of the result and what is added */
    i64 a_m, a_k, b_k, b_n; /* strides inside an item */
    i64 y_m, add_m;         /* between rows */
    i64 c_m, c_n;           /* 0: broadcast */
    i32 batch[6], m, n, k;
    f32 alpha, beta;
    f32 p0, p1; /* of the epilogue's activation */
    i32 unused;
};

/* Matrix products in tiles: gemm_tiled, gemm_sum_parts. */
struct gemm_tiled_args {
    struct gemm_args gemm;
    i64 items;          /* of all batch dimensions */
    i32 share, split_k; /* chunks of each of the groups that share a sum, and how many do */
};

/* Matrix products in tiles for tensor cores: gemm_mma. */
struct gemm_mma_args {
    struct gemm_args gemm;
    i32 share, split_k; /* chunks of each of the groups that share a sum, and how many do */
    i32 each, unused;   /* tiles of all items */
};

/* Matrix products by register tiles: gemm_panels. */
struct gemm_panels_args {
    struct gemm_args gemm; /* b_b: elements between items of panels; b_k, b_n: of the panels' source */
    i64 b_panel, b_row;    /* elements from a panel to the next, and from a row of one to the next */
    i32 across, down;      /* chunks of an item: of panels, of tiles */
    i32 panels, tiles;     /* of a chunk */
    i32 in_place;          /* b is read where it lies */
    i32 c, add;            /* whether there is a c; 1: add is added before the activation, 2: multiplied after it */
    i32 depth;             /* products added at a time */
};

/* Linear layers of one row that leave out zeros of it: linear_skip. */
struct linear_skip_args {
    struct gemm_args gemm;
    i64 w_n;          /* elements between rows of the weights' source */
    i32 share, parts; /* inputs of each group, and how many groups share a sum */
    i32 skip, unused; /* whether zeros are left out */
};

/* The same with weights of 24 bits: linear_fixed_skip. */
struct linear_fixed_skip_args {
    struct gemm_args gemm;
    i64 w_n, pitch;  /* elements between rows of the weights' source; floats of a packed block */
    i32 quads, head; /* of outputs in a block; floats of its formats for a chunk of inputs */
    i32 list, skip;  /* where the list begins, in elements; whether zeros are left out */
};

/* Packing of linear's weights: in 24 bits, linear_fixed, or as halves, linear_gemv_pack. */
struct linear_pack_args {
    i64 w_n, pitch; /* elements between rows of the source; floats of a packed block of rows, or halves of a row */
    i32 n, k;
};

/* A step of a recurrent layer: cell_ref. */
struct cell_args {
    i64 x_n, h_n, c_n, y_n, d_n; /* batch strides of the inputs and the results */
    i64 w_n;                     /* elements between rows of the weights' source */
    i32 n, size;                 /* rows, and units of each gate */
};
struct cell_pack_args {
    i64 w_n; /* elements between rows of the weights' source */
    i32 size, tiles;
};

/* All steps of a recurrent layer: sequence_ref, sequence_persistent, sequence_shared. */
struct sequence_args {
    i64 x_n, h_n, c_n, y_n, d_n; /* batch strides of the inputs and the results */
    i64 w_n;                     /* elements between rows of the weights' source */
    i32 n, size;                 /* rows of the state, and units of each gate */
    i32 steps, reverse;          /* reverse: the last step comes first */
};

#endif
