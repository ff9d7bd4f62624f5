/* channel_parts.h: what the algorithms share that add up channels of a whole batch on channel blocks (the host's side of
 * kernels/norm_reduce/channel_parts.clh). */
#ifndef CLCNN_ALGOS_CHANNEL_PARTS_H
#define CLCNN_ALGOS_CHANNEL_PARTS_H

#include "algos/common/rows.h"

/* `applicable` and `workspace` of such algorithms: sums of each part. */
bool channel_parts_applicable(const struct problem *p, struct why *why);
size_t channel_parts_workspace(const struct problem *p);
/* Of maps of x's shape and of out[0]; dy_n is left to the algorithm. */
struct channel_parts_args channel_parts_of(const struct problem *p, const struct operand *x);
/* Blocks by themselves read `maps` maps from memory once, if they fit a cache and keep all cores busy; else the sums of all parts
 * come first. */
bool channel_parts_whole(const struct problem *p, const struct channel_parts_args *a, int maps);
/* A step of `groups` groups. */
struct step *channel_parts_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                                size_t groups);

#endif
