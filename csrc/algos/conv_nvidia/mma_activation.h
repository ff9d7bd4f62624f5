/* mma_activation.h: what the activation costs where the warps that multiplied apply it, and the tensor cores wait. */
#ifndef CLCNN_ALGOS_MMA_ACTIVATION_H
#define CLCNN_ALGOS_MMA_ACTIVATION_H

#include "algos/algo.h"

/* Whether the activation takes many instructions, for each result again: the cache of instructions holds 128 of a work-item. */
bool mma_long_activation(const struct problem *p);
/* Whether it takes an exponential at least. */
bool mma_slow_activation(const struct problem *p);
/* Time of so many results of a tile, in ns. */
float mma_act_time(const struct problem *p, int results);

#endif
