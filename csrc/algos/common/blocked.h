/* blocked.h: what the algorithms on channel blocks (CPU devices) share. */
#ifndef CLCNN_ALGOS_BLOCKED_H
#define CLCNN_ALGOS_BLOCKED_H

#include "algos/conv/conv_common.h"
#include "common/blocked_args.h"
#include "conv/conv_args.h"
#include "conv_cpu/conv_cpu_args.h"

/* For REQUIRE: the device has channel blocks, and x and y are maps of one or two spatial dimensions. */
#define NO_BLOCKS "channel blocks are for CPU devices with vectors of 8 floats or more"
#define NOT_A_MAP "only maps of one or two spatial dimensions have channel blocks"
/* For PREFER. */
#define FEW_CHANNELS "few channels: most of a block would be empty"
bool blocked_map(const struct problem *p);
int blocked_count(const struct problem *p, int channels); /* blocks of so many channels */
/* Time of a convolution by the direct kernel, in multiply-adds at the peak. */
double blocked_direct_cost(const struct conv_args *a);
/* The same with the lanes past the last filter, which it computes, too. */
double blocked_whole_cost(const struct problem *p, const struct conv_args *a);
/* Such a time as algo_def.effort_of() gives it. */
double blocked_effort(const struct conv_args *a, double cost);

/* How many of `length` rows (or pixels) a group takes, when there are `planes` times as many: enough groups for every core
 * to keep busy until the end, but none of fewer than `least` rows. */
int blocked_run(const struct problem *p, size_t planes, size_t length, size_t least);

/* Products of `items` items with `blocks` blocks of filters are numbered, item by item, and groups have an even part of them each: the
 * items of the group that has most; the fewest groups, a multiple of the cores, of which none has more than `most`. */
size_t blocked_most_items(size_t items, size_t blocks, size_t groups);
size_t blocked_even_groups(const struct problem *p, size_t items, size_t blocks, size_t most);

/* The epilogue of kernels/common/blocked_store.clh: its block of arguments; and the define and the operands bias and add of the
 * step. */
struct blocked_epilogue blocked_epilogue_of(const struct problem *p, const struct operand *bias);
void blocked_step_epilogue(struct step *s, const struct problem *p, const struct operand *bias);
/* With it: x, packed weights, y and the arguments of a step; and conv_step(), which has the cost too. */
void blocked_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes);
void blocked_conv_step(struct step *s, const struct problem *p, int packed, const void *args, size_t bytes);

/* Arguments of the kernels whose filters have a channel block each; work-items take `rows` rows. */
struct depthwise_args depthwise_args_of(const struct problem *p, const struct conv_args *c, int rows);
/* Workspace of a convolution, also a transposed one, whose groups have one channel each. */
size_t depthwise_workspace(const struct problem *p);
/* Depthwise filters packed [ceil(C/B)][R][S][B]; `a` as conv_args_of() gives it. */
int emit_depthwise_packed(struct emit *e, const struct problem *p, const struct conv_args *a);
size_t depthwise_packing_workspace(const struct problem *p, const struct conv_args *a);
/* Columns of a tile's window that may lie outside the image, at its end where there are more, for rows of whole tiles. */
int depthwise_edge(const struct conv_args *a);
/* Defines of kernels/conv_cpu/depthwise_tile.clh but DT: taps are unrolled for the windows that nets use. */
void define_depthwise(struct step *s, const struct problem *p, const struct conv_args *a);

#endif
