/* update_args.h: argument blocks of what changes parameters; the rules are those of args_base.h. */
#ifndef CLCNN_UPDATE_ARGS_H
#define CLCNN_UPDATE_ARGS_H

#include "common/args_base.h"

/* Rows cut into pieces as rows.clh tells; those of the value are value_n apart. */
struct commit_args {
    i64 rows, inner, pieces, value_n;
    i32 commit, when; /* whether to change the state at all; whether there is a condition */
};

#endif
