/* update.h: what optimisers' passes over flat arrays share (the host's side of kernels/update/update.clh). */
#ifndef CLCNN_ALGOS_UPDATE_H
#define CLCNN_ALGOS_UPDATE_H

#include "algos/common/rows.h"
#include "update/update_args.h"

/* A step that reads all inputs and writes all outputs, which may be the same arrays in a commit, without its arguments; *run and *gate
 * belong to them. */
struct step *update_step(struct emit *e, const struct problem *p, const char *file, i64 *run,
                         struct commit_gate *gate);

/* Whether the last input holds a momentum, in the place of the attribute. */
bool momentum_is_fed(const struct problem *p);

#endif
