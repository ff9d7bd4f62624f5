/* pool.h: what the algorithms share that slide windows. */
#ifndef CLCNN_ALGOS_POOL_H
#define CLCNN_ALGOS_POOL_H

#include "algos/common/rows.h"
#include "pool/pool_args.h"

/* Geometry of a pooling of p->in[0] to p->out[0]; pieces is left to the step. */
struct pool_args pool_args_of(const struct problem *p, const struct pool_attrs *attrs);

#endif
