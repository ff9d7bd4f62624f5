/* reorders.h: what moves between rows and channel blocks share. */
#ifndef CLCNN_ALGOS_REORDERS_H
#define CLCNN_ALGOS_REORDERS_H

#include "algos/common/rows.h"
#include "move/move_args.h"

/* From in[0] to out[0]; map: the shape of either, channels second. */
struct reorder_args reorder_args_of(const struct problem *p, const struct clcnn_shape *map);

#endif
