/* fft_args.h: argument block of convolutions by Fourier transforms for CPU devices; the rules are those of
 * args_base.h. */
#ifndef CLCNN_FFT_ARGS_H
#define CLCNN_FFT_ARGS_H

#include "common/blocked_args.h"

/* Overlapping tiles of T x T: conv_fft. Index 0 = height, 1 = width. */
struct conv_fft_args {
    i64 src_n, dst_n, add_n; /* batch strides */
    i64 w_k;                 /* elements between filters of the weights */
    i32 k, kg, cg, groups;   /* filters; filters and channels of a group; groups */
    i32 c_blocks, k_blocks;  /* of a group: blocks of V channels, of V filters */
    i32 in[2], out[2], pad[2], ker[2];
    i32 tiles_high, tiles_wide; /* of an image */
    i32 first_tile, tiles;      /* of this step */
    i32 t, c_step;              /* of a work-item of `in`: tiles, as many as TT of `main`; blocks of channels */
    struct blocked_epilogue epi;
};

#endif
