/* amx_args.h: the argument block of convolutions by tiles of bfloat16; the rules are those of args_base.h. */
#ifndef CLCNN_AMX_ARGS_H
#define CLCNN_AMX_ARGS_H

#include "common/blocked_args.h"

/* conv_amx, byte_amx. Index 0 = height, 1 = width. */
struct conv_amx_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 w_k;                 /* elements between filters of the weights */
    i64 x_row, y_row;        /* of rows: elements from one pixel to the next */
    i64 positions;           /* of a chunk of channels, with those before the first pixel and past the last one */
    i32 n, c, k;
    i32 chunks, k_blocks;       /* of 32 channels, of bytes 64; of 32 filters */
    i32 span, k_group, c_group; /* chunks that a block of filters reads; filters and channels of a group */
    i32 floats;                 /* filters are kept as such, and groups split them */
    i32 out[2], ker[2], dil[2];
    i32 phases[2], shift[2];          /* the stride of windows; from a window's first position to its first pixel */
    i32 width, map_height, stride[2]; /* of the map: columns, rows, and from one with a position to the next */
    i32 pitch, height, lead;          /* positions of a row, rows of an image, positions before the first pixel */
    /* of 32 positions; groups that share them; parts of one of these, one after the other */
    i32 blocks, across, rounds;
    i32 k_per, depth;           /* blocks of filters of a group; chunks at a time */
    i32 mode, position, unused; /* bytes of a position */
    struct blocked_epilogue epi;
};

/* Modes: y from s; the same, with groups that split the positions themselves, whose number is then theirs; s alone. */
#define AMX_SPLIT_BEFORE 0
#define AMX_FRESH 1
#define AMX_SPLIT 2

#endif
