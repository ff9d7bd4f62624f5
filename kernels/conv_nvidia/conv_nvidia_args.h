/* conv_nvidia_args.h: argument blocks of kernels for tensor cores; the rules are those of args_base.h. */
#ifndef CLCNN_CONV_NVIDIA_ARGS_H
#define CLCNN_CONV_NVIDIA_ARGS_H

#include "conv/conv_args.h"
#include "conv/conv_phases_args.h"

/* A convolution in tiles for tensor cores: conv_mma. Depths are numbered tap * padded + channel; `share` chunks of them
 * belong to each of the groups that share a sum. */
struct conv_mma_args {
    struct conv_args conv;
    i64 by_padded, by_width, by_height; /* of padded, conv.ker[2] and [1], for depths: see FN(quotient); 0: divide */
    i64 tiles;                          /* of all groups of conv_wgmma, which take every at_once-th one */
    i32 padded, depth;                  /* channels between taps; all of it, a multiple of the chunk */
    i32 share, at_once;                 /* groups of the launch */
    i32 split_k, each;                  /* groups that share a depth, and tiles of each */
    f32 pre_p0, pre_p1;                 /* of the activation before it: PREPARED in conv_mma.clh */
};

/* A transposed convolution, each phase of which is a convolution at stride 1 with filters of its own: conv_mma with
 * PHASES.
 * `mma` counts the groups, channels and filters of all phases, phase by phase, and has the sizes of the largest one. */
struct conv_phases_mma_args {
    struct conv_mma_args mma;
    struct conv_phases phases;
    i32 groups, tiles; /* of a phase: conv groups; tiles of pixels, of the largest one */
};

/* Single pixels and rows, both operands in local memory: conv_wgmma_local, whose chunks have LOCAL_PAIR_CHANNELS
 * channels.
 * A depth counts channels alone. */
#define LOCAL_PAIR_CHANNELS 32
#define LOCAL_PAIR_RESIDENT(loaders) ((loaders) == 4 ? 2 : 1) /* groups of a multiprocessor */
#define LOCAL_PAIR_BYTES(loaders) ((loaders) == 4 ? 115200 : 231424)
struct conv_local_args {
    struct conv_mma_args mma;
    i32 tiles_each, tiles_image; /* tiles of positions: of all images, of one */
};

/* How the pixels of a convolution come to local memory: GATHER of conv_gather.clh. */
#define GATHER_TAPS 0      /* tap by tap, 4 bytes each */
#define GATHER_POSITIONS 1 /* window positions from the depth alone: few channels */
#define GATHER_WIDE 2      /* 1x1 at stride 1, 16 bytes where aligned */
#define GATHER_ROWS 3      /* maps of one pixel (linear), 16 bytes along the channels where aligned */

/* Output pixels of a group's tile in conv_stem_mma, and floats of its local memory. */
#define STEM_TILE_HIGH 8
#define STEM_TILE_WIDE 16
#define STEM_CAPACITY 11264

/* Filters as fragments of tensor cores: conv_mma_pack. */
struct conv_mma_pack_args {
    i64 w_k; /* elements between filters of the source */
    i32 groups, kg, c, taps, padded, depth;
};
/* The same for the phases of a transposed convolution: conv_transpose_mma_pack. */
struct conv_phases_mma_pack_args {
    i64 w_k;                          /* elements between channels of the source */
    i32 groups, kg, c, padded, depth; /* groups of all phases */
    i32 each;                         /* groups of a phase */
    struct conv_phases phases;
};
#define PACK_SLABS 2    /* of 16 of depth, that a group of conv_wgmma_pack packs with PRODUCTS 3 */
#define FILTER_TEAM 128 /* work-items that find the largest weight of a filter together */
/* floats behind each slab, which ends on a line of 128 bytes: what pixels are multiplied by, whether any is not 1 */
#define DEPTH_GAINS 32

/* 3x3 windows in local memory: conv_wgmma_window, whose chunks have WINDOW_CHANNELS channels and whose tiles have up to
 * WINDOW_HALO positions more on both sides together. */
#define WINDOW_CHANNELS 16
#define WINDOW_HALO 120
struct conv_window_args {
    struct conv_args conv;
    i32 positions, chunks; /* of all images with their zeros; of channels */
};
struct conv_window_pack_args {
    i64 w_k; /* elements between filters of the source */
    i32 k, c;
};

/* Windows as products of scaled halves: conv_wgmma_scaled. taps: of a window in a plane of channels, 1: single pixels.
 * Chunks have SCALED_CHANNELS(taps) channels; what the last one of a plane lacks is zeros. */
#define SCALED_CHANNELS(taps) ((taps) == 1 ? 32 : 16)
/* Floats that a chunk of pixels is multiplied by: one a channel, and one that says whether any of them is not 1. */
#define SCALED_GAINS(taps) (SCALED_CHANNELS(taps) + 4)
/* images that a tile with the pixels around it may touch, with windows of more than one pixel */
#define SCALED_SCALES 16
/* Bytes of filters that come at once, those of a row of a window, and stages of the pipelines in local memory for tiles
 * of bm filters by bn positions, of `span` with those around; windows of high x wide taps. */
#define SCALED_STEP(high, wide, bm) ((bm)*32 * ((high) * (wide) == 1 ? 2 : (wide)))
#define SCALED_FILTER_STAGE(high, wide, bm) \
    (SCALED_STEP(high, wide, bm) + 4 * (bm)) /* with what undoes the filters' scales */
#define SCALED_RAW_STAGES(taps, span) ((taps) == 1 && (span) <= 192 ? 4 : (span) <= 512 ? 3 : 2)
#define SCALED_HALF_STAGES(taps, bn) ((taps) == 1 && (bn) <= 192 ? 3 : 2)
#define SCALED_PITCH(taps, span) ((span) + ((taps) == 1 ? 4 : 0)) /* between filters of what is added */
#define SCALED_RAW(taps, span) (4 * SCALED_RAW_STAGES(taps, span) * SCALED_PITCH(taps, span))
#define SCALED_PIXELS(taps, bn, span) \
    (SCALED_CHANNELS(taps) * (SCALED_RAW(taps, span) + 2 * SCALED_HALF_STAGES(taps, bn) * (span)))
#define SCALED_FILTER_STAGES(high, wide, bm, bn, span) \
    ((220000 - SCALED_PIXELS((high) * (wide), bn, span)) / SCALED_FILTER_STAGE(high, wide, bm))
/* Pixels i * stride + phase of a dimension are a map of their own at stride 1: the first place of a window of that
 * phase, and where it begins in that map, before the output's pixel. */
#define SCALED_FIRST(phase, pad, stride) (((phase) + (pad)) % (stride))
#define SCALED_BEFORE(phase, pad, stride) (((phase) + (pad)) / (stride))
struct conv_scaled_args {
    struct conv_args conv;
    i64 tiles;               /* of all conv groups, blocks of filters and parts of a depth */
    i32 at_once, tiles_each; /* groups; tiles of positions */
    i32 positions, chunks;   /* of all images with their zeros; of a conv group's channels in all planes of a window */
    i32 line[2];             /* rows and columns of an image with its zeros */
    i32 ahead, behind;       /* positions before and behind a tile that its windows see */
    i32 split_k, share;      /* groups that share a depth, and chunks of each */
};
/* Also how conv_filter_sizes and conv_wgmma_pack find filters' largest weights, with all taps together. planes: of a
 * window that is a volume, or phases of a strided one, whose channels lie behind one another plane by plane when
 * packed. */
struct conv_scaled_pack_args {
    i64 w_k; /* elements between filters of the source */
    i32 groups, kg, c, taps, planes;
    i32 padded;                                  /* channels of a plane when packed, a multiple of SCALED_CHANNELS */
    i32 ker[2], stride[2], pad[2], wide, unused; /* of a strided window; taps of a row of a phase */
};

/* Single pixels and rows as products of scaled halves: conv_halves makes them, conv_wgmma_halves multiplies. back: what
 * undoes the one scale of a map that came as halves; up: that of the result where it becomes halves. */
#define HALVES_LOCAL(positions) ((positions) == 64 ? 115200 : 230400) /* bytes of local memory */
#define HALVES_RESIDENT(positions) ((positions) == 64 ? 2 : 1)        /* groups of a multiprocessor */
struct conv_halves_args {
    struct conv_args conv;
    i64 tiles;           /* of all positions and blocks of filters */
    i32 at_once, chunks; /* groups of the launch; chunks of channels */
    i32 positions;       /* of all images */
    f32 back, up;
    i32 padded; /* channels of a position as halves, a multiple of SCALED_CHANNELS(1) */
};

#endif
