/* attention.h: what the algorithms of attention share. */
#ifndef CLCNN_ALGOS_ATTENTION_H
#define CLCNN_ALGOS_ATTENTION_H

#include "plan/emit.h"
#include "attention/attention_args.h"

struct attention_args attention_args_of(const struct problem *p);
/* Operands, arguments, cost, and the defines MASK and CAUSAL of a step of either kernel. */
void attention_finish(struct step *s, const struct problem *p, const struct attention_args *a);
/* The same with a mask that lies at another view, as the define MASK = `kind` says. */
void attention_finish_with(struct step *s, const struct problem *p, const struct attention_args *a, int kind,
                           int mask);

#endif
