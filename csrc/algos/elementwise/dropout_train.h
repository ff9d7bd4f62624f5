/* dropout_train.h: what the algorithms of dropout_train share. */
#ifndef CLCNN_ALGOS_DROPOUT_TRAIN_H
#define CLCNN_ALGOS_DROPOUT_TRAIN_H

#include "algos/common/rows.h"
#include "elementwise/elementwise_args.h"

/* All but how rows are cut into pieces. */
struct dropout_args dropout_args_of(const struct problem *p);
/* Ends the description of a step. */
void dropout_finish(const struct problem *p, struct step *s, const struct dropout_args *a);

#endif
