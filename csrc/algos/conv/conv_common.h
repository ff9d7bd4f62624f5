/* conv_common.h: what the convolution algorithms share. */
#ifndef CLCNN_ALGOS_CONV_COMMON_H
#define CLCNN_ALGOS_CONV_COMMON_H

#include "plan/emit.h"
#include "conv/conv_args.h"

/* The argument block of a conv or conv_transpose problem with 1 to 3 spatial dimensions. */
struct conv_args conv_args_of(const struct problem *p);
/* The same of maps whose channels, and the first of their spatial dimensions, are these. */
struct conv_args conv_args_at(const struct problem *p, int channels, int spatial);
/* The same, but volumes whose windows have one pixel a slice are images: a row for each slice. */
struct conv_args conv_args_of_slices(const struct problem *p);
int conv_taps(const struct conv_args *a);      /* of the window */
int64_t conv_map(const struct conv_args *a);   /* pixels of the output of an image */
size_t conv_pixels(const struct conv_args *a); /* the same over the batch */
double conv_macs(const struct conv_args *a);   /* multiply-adds of the definition */
/* Multiply-adds of a conv, and bytes with every operand read or written once. */
void conv_cost(struct step *s, const struct problem *p);
/* A step that computes the whole layer: reads x and the packed filters, has the epilogue, writes y; and its cost. */
void conv_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes);
/* 2-D view: 1-D and 2-D problems (kernels that index rows and columns only). */
bool conv_is_2d(const struct problem *p);
/* Whether the first of three dimensions counts for anything. */
bool conv_is_volume(const struct conv_args *a);
/* A 1x1 window at stride 1 without padding: pixels do not depend on their neighbours. */
bool conv_is_pointwise(const struct conv_args *a);
/* A 1x1 window at any stride that reads no border. */
bool conv_reads_inside(const struct conv_args *a);
/* The attributes of one with so many spatial dimensions. */
struct conv_attrs conv_pointwise_attrs(int spatial);
/* Windows of neighbours at every pixel of a plane: stride and dilation are 1. */
bool conv_is_dense(const struct conv_args *a);
/* One input channel a group. */
bool conv_is_depthwise(const struct conv_args *a);
/* What all algorithms for depthwise convolutions with dense channels have in common. */
bool conv_depthwise_applicable(const struct problem *p, struct why *why);
/* Channels of a group over which F(4x4, 3x3) may add up: whole numbers over 1024 were off by up to 6.5e-5 of the output's rms, where
 * precision "highest" allows 5e-5, and over 768 by 3.9e-5. */
#define MOST_OF_F4 768
#define TOO_MANY_CHANNELS "tiles of 4x4 and more than 768 channels exceed the error that is allowed"

/* Weights regrouped by kernels/conv/conv_pack.cl: `block` filters of a group side by side, for c_block channels of a tap (0: for
 * all when tap_major, else for one). */
struct conv_packing {
    int block, c_block;
    bool tap_major;
    int lanes; /* > 1: a group's filters and channels keep their lanes in channel blocks of so many */
    int points; /* of Winograd's transform, for which there are groups then (kernels/conv/conv_weight.clh); 0: raw weights */
    int turned;      /* filters of a group of weights that are turned (struct operand); 0: they are not */
    bool transposed; /* weights [C][K/groups]... (kernels/conv/conv_transpose_pack.cl); tap_major */
};
/* That of a problem's weights. */
int conv_turned(const struct problem *p);
int conv_blocks(const struct conv_args *a, int block); /* blocks of filters over all groups */
/* Lanes from the beginning of a channel block of `lanes` to the end of a group of `each` channels that has most of them. */
int conv_lane_span(int groups, int each, int lanes);
/* Whether groups begin or end within a channel block; for REQUIRE: they must not. */
bool conv_groups_in_parts(const struct conv_args *a, int block);
#define GROUPS_IN_PARTS "groups must be whole channel blocks"
size_t conv_packed_bytes(const struct conv_args *a, struct conv_packing packing);
int emit_conv_packed(struct emit *e, const struct problem *p, const struct conv_args *a,
                     struct conv_packing packing);
/* Workspace of an algorithm that packs: none, unless the weights are computed and packed in every run. */
size_t conv_packing_workspace(const struct problem *p, const struct conv_args *a,
                              struct conv_packing packing);

/* Whether zeros of the map may be left out: no filter has an element larger than this, so that zero times it is zero. */
bool conv_skips_zeros(const struct problem *p, struct emit *e, float largest);
/* For PREFER. */
#define ZEROS_UNKNOWN "nothing tells that the map has zeros enough"

/* A sum over the depth that `split_k` groups share: their partial sums, dense [split_k][K][N*P*Q] in a view, are added
 * up in ascending order by kernels/conv/conv_sum_parts.cl, which applies the epilogue. */
size_t conv_split_k_bytes(const struct conv_args *a,
                          int split_k); /* 0 for one group: there is no such view */
/* The end of such a step: epilogue, results in `view` (of y for one group), arguments; and the step that adds partial sums up. */
void emit_conv_split_k(struct emit *e, struct step *s, const struct problem *p, const struct conv_args *a,
                       int split_k, int view, const void *args, size_t bytes);
/* The same for the gradient of filters: p->out[0] as the sum of dense partial ones [split_k][K][C/groups*taps]. */
void emit_filter_grad_sum(struct emit *e, const struct problem *p, const struct conv_args *a, int split_k,
                          int parts);

#endif
