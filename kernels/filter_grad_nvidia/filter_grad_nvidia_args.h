/* filter_grad_nvidia_args.h: argument blocks of the gradients of filters on tensor cores; the rules are those of
 * args_base.h. */
#ifndef CLCNN_FILTER_GRAD_NVIDIA_ARGS_H
#define CLCNN_FILTER_GRAD_NVIDIA_ARGS_H

#include "conv_nvidia/conv_nvidia_args.h"

/* The gradient of a convolution's filters: `conv` is that convolution. depth: pixels of dy, of which each group takes
 * `share` chunks; step_n, step_p: images and pixels that a chunk goes on. Elements between results of neighbouring
 * filters (apart), parts of a split depth (part), channels of dy (map) and of x (plane). */
struct filter_grad_mma_args {
    struct conv_args conv;
    i64 depth, apart, part;
    i32 map, plane, share, unused, step_n, step_p;
};

/* The same by rows: conv_filter_grad_wgmma, whose chunks have ROWS_DEPTH of depth, in segments of 2^wide pixels of a
 * row of dy, `across` of them a row; depth counts pixels of segments. A segment of a row of x has `segment` floats in
 * local memory, `left` of them left of the first pixel, and all segments of a row have `row` floats. */
#define ROWS_DEPTH 32
#define ROWS_PIECES 12    /* of 16 bytes of x, that a work-item copies for each chunk at most */
#define ROWS_LOCAL 230400 /* bytes of all stages and their barriers */
struct filter_grad_rows_args {
    struct filter_grad_mma_args grad;
    i32 wide, across;
    i32 pitch_x, left, segment, row; /* pitch_x: elements between rows of x, a multiple of 4 */
    i32 stages, stage;               /* and bytes of each */
    i32 step_n, step_h, step_u;      /* images, rows and segments that a chunk goes on */
    i32 unused;
};

/* Rows with zeros behind them, so that each begins on a boundary of 16 bytes: conv_filter_grad_rows. */
struct filter_grad_pitch_args {
    i64 image, total;               /* elements between images; rows of all images */
    i32 rows, width, quads, unused; /* of an image; of a row; of a row of the result */
};

/* dy chunk by chunk: conv_filter_grad_cores. */
struct filter_grad_cores_args {
    i64 image;              /* elements between images */
    i32 n, kg, high, width; /* images; filters of a group; rows and columns of dy */
    i32 wide, across, chunks, unused;
};

/* Maps as lines of scaled halves: conv_filter_grad_halves. [0]: down, [1]: across. */
struct filter_grad_halves_args {
    i64 image;               /* elements between images */
    i32 n, groups, each;     /* images; channels of each conv group */
    i32 in[2], stride[2];    /* of the map; from a plane's pixel to the next */
    i32 planes[2], begin[2]; /* and the first row and column of the first plane */
    i32 rows, columns;       /* of a plane that are wanted at most */
    i32 high, wide;          /* rows of an image, pixels of a row of the line */
    i32 first, step, length; /* where the first part's line begins, the next one's, and its pixels */
    /* pixels of an octet side by side, those of all octets then: a power of two, or `length` */
    i32 piece;
    i32 unused;
};

/* Gradients of filters from such lines: conv_filter_grad_scaled. */
#define LINES_STAGES 12    /* at most */
#define LINES_HEADER 1024  /* bytes before the stages: barriers, and what a tile's slots and filters are */
#define LINES_LOCAL 230400 /* bytes of local memory */
struct filter_grad_scaled_args {
    struct conv_args conv;
    i32 share, chunks;             /* chunks of a part, and of all */
    i32 high, wide, first, length; /* of the lines of x, as above */
    /* down, right: more than a position of the kernel lies behind, in strides */
    i32 planes[2], begin[2], down, right;
    i32 octets_x, octets_dy; /* of channels and filters of a conv group */
    i32 blocks, taps;        /* of 64 channels, and positions of the kernel, of a tile */
    i32 channel_tiles, tap_tiles, filter_tiles;
    /* pixels of an octet of x in a stage; bytes before dy, of all; how many */
    i32 span, of_dy, stage, stages;
    i32 piece, whole; /* of the lines of x, as above; whether it is a chunk */
    i32 unused;
};

/* Their parts, put together: conv_filter_grad_join. */
#define JOIN_FILTERS 32
#define JOIN_RESULTS 288 /* of a filter, that a group has room for */
struct filter_grad_join_args {
    i64 apart;                      /* elements between filters of the result */
    i32 groups, k, c, taps;         /* conv groups; filters and channels of each */
    i32 pitch, parts, each, unused; /* elements between channels of a part; channels that a group takes */
};

#endif
