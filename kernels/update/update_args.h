/* update_args.h: argument blocks of what changes parameters; the rules are those of args_base.h. */
#ifndef CLCNN_UPDATE_ARGS_H
#define CLCNN_UPDATE_ARGS_H

#include "common/args_base.h"

/* Whether to change anything at all; whether there is a condition. */
struct commit_gate {
    i32 commit, when;
};

/* Flat arrays of `count` elements, of whose vectors a group takes `run`. */
struct sgd_args {
    struct commit_gate gate;
    i64 count, run;
    f32 momentum, weight_decay;
    i32 nesterov, fed; /* fed: the momentum is hyper[2] */
};

/* fed: beta[0] is hyper[2]. log: natural logarithms of the two betas; rest: 1 less them. */
struct adamw_args {
    struct commit_gate gate;
    i64 count, run;
    f32 beta[2], log[2], rest[2];
    f32 epsilon, weight_decay;
    i32 decoupled, fed;
};

/* Rows cut into pieces as rows.clh tells; those of the value are value_n apart. */
struct commit_args {
    struct commit_gate gate;
    i64 rows, inner, pieces, value_n;
};

#endif
