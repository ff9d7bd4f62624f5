/* move_args.h: argument blocks of data movement; the rules are those of args_base.h. */
#ifndef CLCNN_MOVE_ARGS_H
#define CLCNN_MOVE_ARGS_H

#include "common/strided_args.h"

/* Elements of x picked by indices: operands 0 to 2 are x, the first number of each index, and y. Number k of an index,
 * index_step further, counts steps of axis_step[k] in x, of which there are axis_size[k]. */
struct gather_args {
    struct strided_args walk;
    i64 axis_step[8], index_step;
    i32 axis_size[8];
    i32 axes;
    i32 unused;
};

/* Slices changed at indices (scatter_ref.cl): operands 0 to 3 are x, the first update of each slice, the updates and
 * y. */
struct scatter_args {
    struct strided_args walk;
    i64 update_step, index_step; /* between neighbouring slices of updates, and indices */
    i32 slices, updates, part;   /* of which a work-item lists `part` */
    i32 unused;
};

/* Numbers of elements that are not 0: `size` elements of an item, items x_n apart; a work-item takes `part`. */
struct nonzero_args {
    i64 x_n, size, elements;
    i32 part, parts;
};

/* Pieces of rows between one array and others (copy_pieces.cl), each of n items of `rows` rows of `quads` vectors.
 * factor and shift divide by quads, and COPY_PIECES further by rows, as in walk.clh; the first of what is not there is
 * beyond `past`. */
#define COPY_PIECES 8
struct pieces_args {
    i64 one_at[COPY_PIECES], one_n[COPY_PIECES], many_n[COPY_PIECES];
    i32 one_row[COPY_PIECES], many_row[COPY_PIECES], rows[COPY_PIECES], quads[COPY_PIECES];
    i32 factor[2 * COPY_PIECES], shift[2 * COPY_PIECES];
    i32 first[COPY_PIECES], past;
    i32 unused;
};

/* Padding; the last dimension is the row. */
struct pad_args {
    i64 x[8], y[8];
    i64 rows, pieces;
    i32 x_size[8], y_size[8], begin[8];
    i32 rank;
    f32 value;
};

/* Transposes by tiles: `x` is contiguous along `high`, y along `wide`. `tiles` counts tiles along high, along wide, and
 * then planes by the dimensions of `x` and `y`; factor and shift divide by it, as in walk.clh. */
struct transpose_args {
    i64 x[6], y[6];
    i64 x_step, y_step; /* x between neighbours along wide, y between neighbours along high */
    i32 tiles[8], factor[8], shift[8];
    i32 rank, high, wide;
    i32 unused;
};

/* Channels from..from + count of map `source`, every from_step-th, become those of y at `to`, every to_step-th. */
struct channel_run {
    i32 source, from, to, count, from_step, to_step;
};

/* Channels between maps on channel blocks (channels_blocked.cl): the channels first to past - 1 of y, and of the blocks
 * in which they lie what comes after them. */
#define CHANNEL_SOURCES 8
#define CHANNEL_RUNS 12
struct channels_args {
    i64 x_n[CHANNEL_SOURCES], y_n;
    i32 pixels, part; /* pixels of a work-item */
    i32 first, past, runs, sources;
    i32 x_blocks[CHANNEL_SOURCES];
    struct channel_run run[CHANNEL_RUNS];
};

/* Padding and slices of pixels on channel blocks (map_blocked.cl): depth, height, width. */
struct map_blocked_args {
    i64 x_n, y_n, x_block, x_plane, x_row; /* strides of x, which may be cropped */
    i32 c, blocks, run;                    /* rows of a work-item */
    i32 in[3], out[3], from[3], step[3];
    i32 mode; /* of attribute `mode` of pad */
    f32 value;
    i32 x_blocks, more; /* blocks of x; whether y has more channels, which are zeros */
    i32 unused;
};

/* Between row-major maps and channel blocks (reorder_blocks.cl). */
struct reorder_args {
    i64 x_n, y_n; /* batch strides */
    i32 n, c, pixels;
    i32 unused;
};

#endif
