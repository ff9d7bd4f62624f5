/* channel_parts.h: what the algorithms share that add up channels of a whole batch on channel blocks (the host's side of
 * kernels/norm_reduce/channel_parts.clh). */
#ifndef CLCNN_ALGOS_CHANNEL_PARTS_H
#define CLCNN_ALGOS_CHANNEL_PARTS_H

#include "algos/common/rows.h"

/* `applicable` and `workspace` of such algorithms: sums of each part. */
bool channel_parts_applicable(const struct problem *p, struct why *why);
size_t channel_parts_workspace(const struct problem *p);
/* The steps of a kernel file, whose entries are `sums` and `apply`, or `whole`. The first `maps` inputs are maps, the last of them x; the
 * first `summed` inputs are what the sums take. */
void channel_parts_emit(const struct problem *p, struct emit *e, const char *file, int maps, int summed);

#endif
