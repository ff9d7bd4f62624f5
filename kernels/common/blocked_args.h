/* blocked_args.h: argument blocks of what all kernels on channel blocks share; the rules are those of args_base.h. */
#ifndef CLCNN_BLOCKED_ARGS_H
#define CLCNN_BLOCKED_ARGS_H

#include "common/args_base.h"

/* The end of the kernels on channel blocks (blocked_store.clh). */
struct blocked_epilogue {
    f32 p0, p1;    /* of the activation */
    i32 bias, add; /* whether there is a bias; 1: add is added before the activation, 2: multiplied after it */
};

#endif
