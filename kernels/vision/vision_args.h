/* vision_args.h: argument blocks of resampling, regions and boxes; the rules are those of args_base.h. */
#ifndef CLCNN_VISION_ARGS_H
#define CLCNN_VISION_ARGS_H

#include "common/args_base.h"

/* Deformable convolution: spatial sizes are height, width. */
struct deform_args {
    i64 rows, pieces, x_n, w_k, offset_n, mask_n, y_n;
    i32 c, k, groups, offset_groups;
    i32 in[2], out[2], ker[2], stride[2], pad[2], dil[2];
};

/* Sampling by a grid: index 0 = depth, 1 = height, 2 = width; a row is one (n, c, depth, height) of the output. */
struct grid_args {
    i64 rows, pieces, x_n, grid_n, y_n;
    i32 c, in[3], out[3];
    i32 unused;
};

/* Regions of interest: a row is one (region, c, height) of the output. */
struct roi_args {
    i64 rows, pieces, x_n, roi_n, y_n;
    i32 n, c, in[2], out[2], samples; /* n: items of x */
    f32 scale, offset;                /* offset: taken off every coordinate */
    i32 least;                        /* 1: regions are at least one element large */
};

/* Boxes: `lists` pairs of an item and a class, up to `most` boxes kept of each. */
struct nms_args {
    i64 boxes_n, scores_n, row_n;
    i32 lists, classes, boxes, most;
    f32 iou, score;
};

/* nms_masks: boxes in order of their scores from `first` on, `slab` of them, a multiple of 32. */
#define NMS_MOST_SLAB 2048
struct nms_masks_args {
    struct nms_args nms;
    i32 first, slab;
};

/* nms_sorted: groups that share the lists, and elements between the rows of what each keeps. */
struct nms_sorted_args {
    struct nms_args nms;
    i32 groups, padded;
};

/* Resampling: output index i of a dimension reads at (i * mul + add) / div, in exact integers. A row is one (n, block,
 * depth, height) of the output, a block being `block` channels of the c. */
struct resize_args {
    i64 rows, pieces, x_n, y_n;
    i64 mul[3], add[3], div[3];
    i32 c, block, in[3], out[3];
};

/* The same on channel blocks (resize_blocked.cl): `run` rows for a work-item. */
struct resize_blocked_args {
    i64 x_n, y_n;
    i64 mul[3], add[3], div[3];
    i32 blocks, run, linear, dims, in[3], out[3];
};

/* Resampling by kernels of some width: coordinates as in resize_args; `scale` below 1 stretches the kernel. */
struct resize_taps_args {
    i64 rows, pieces, x_n, y_n;
    i64 mul[3], add[3], div[3];
    i32 c, in[3], out[3];
    i32 exclude, rounding;
    f32 scale[3], cubic, outside;
};

/* The same where rows are blended first (resize_rows.cl): a piece is COLUMNS of the output,
 * which read KEPT - 1 or fewer of the input; `run` of the rows for a work-item. */
#define RESIZE_ROWS_COLUMNS(span) ((span) < 4 ? 512 : 2048 / (span))
#define RESIZE_ROWS_KEPT 2048
struct resize_rows_args {
    struct resize_taps_args taps;
    i64 run;
};

#endif
