/* commit.h: the step that changes a state, which is no layer of a graph. */
#ifndef CLCNN_ALGOS_COMMIT_H
#define CLCNN_ALGOS_COMMIT_H

#include "plan/emit.h"
#include "update/update_args.h"

/* state[i] = value[i], if `when` holds (NULL: always) and struct commit_args says so, as it does from the start with `commit`, which is no part of the commit then. */
void commit_step(struct emit *e, const struct clcnn_device_info *device, const struct operand *when,
                 const struct operand *value, int state, bool commit);

#endif
