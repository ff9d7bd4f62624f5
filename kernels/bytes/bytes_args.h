/* bytes_args.h: argument blocks of kernels on maps of bytes; the rules are those of args_base.h. Index 0 = height, 1 =
 * width. */
#ifndef CLCNN_BYTES_ARGS_H
#define CLCNN_BYTES_ARGS_H

#include "conv_cpu/amx_args.h"

/* Rounded sums and, where a map is added, their sum with it. */
struct byte_steps {
    f32 own, other, shift; /* with a map that is added: own * y + other * add + shift */
    i32 zero;              /* zero point of what the sums are rounded to */
    i32 bias;              /* whether there is one */
    i32 filters;
};

/* Convolution: byte_conv, byte_depthwise. */
struct byte_conv_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 plane, out_plane;    /* from a block of channels to the next, of x and of y */
    i32 n, together;         /* items; those that a block of filters serves before the next one, 1 or n */
    i32 c_blocks, k_blocks;  /* blocks of channels that a block of filters reads; blocks of KV * 16 filters */
    i32 k_group, c_group;    /* filters and channels of a group */
    i32 out[2], ker[2];
    i32 row, stride; /* from a row of x to the next; rows of x from a row of y to the next */
    i32 dil[2];
    i32 chunks, per_item; /* work-items of an item and a block of filters, tiles (or rows) of each */
    i32 x_zero, last;     /* the last of the blocks of channels that may be the first one read */
    struct byte_steps steps;
};

/* Convolution by tiles: byte_amx. */
struct byte_amx_args {
    struct conv_amx_args shape;
    struct byte_steps steps;
    i32 x_zero, unused;
};

/* Filters as bytes: byte_conv_pack. */
struct byte_pack_args {
    i64 w_k;                /* elements between filters of w */
    i32 k, c, taps, q;      /* filters, channels of each, taps of the window, groups of four channels in a block */
    i32 c_blocks, k_blocks; /* blocks of channels that a block of filters reads; of KV * 16 filters */
    i32 k_group, last;      /* filters of a group; the last block of channels that may be the first one read */
};

/* Bytes with a border, or every stride-th of them: byte_pad. */
struct byte_pad_args {
    i64 src_n, dst_n;
    i64 src_at, dst_at; /* where the first block lies */
    i32 n, blocks;
    i32 in[2], out[2];
    i32 pad[2], stride[2]; /* where the map begins; from a byte that is taken to the next */
    i32 zero, rows;        /* what the border has; rows of y of a work-item */
};

/* Windows: byte_max_pool; the sum of a map: byte_mean. */
struct byte_pool_args {
    i64 src_n, dst_n;
    i32 n, blocks;
    i32 in[2], out[2], ker[2], stride[2], pad[2], dil[2];
    i32 rows, x_zero; /* rows of y of a work-item */
    f32 factor;
    i32 zero; /* of y */
};

/* A number a channel: byte_scale. */
struct byte_scale_args {
    i64 src_n, dst_n, scale_n;
    i32 n, blocks, c;
    i32 pixels, run; /* of a map, and of a work-item */
    i32 x_zero, zero;
    f32 factor;
};

/* What a table has for each byte: byte_lookup. */
struct byte_lookup_args {
    i64 src_n, dst_n;
    i32 n, unused;
    i64 count, run; /* bytes of an item, and of a work-item */
};

/* To bytes and back: to_bytes, from_bytes. */
struct byte_move_args {
    i64 src_n, dst_n;
    i32 n, c;        /* items, or rows of each */
    i32 pixels, run; /* pixels of a map, and of a work-item */
    f32 scale;
    i32 zero;
};

#endif
