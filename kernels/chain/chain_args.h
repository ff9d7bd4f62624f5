/* chain_args.h: argument blocks of a step of a chain; the rules are those of args_base.h. */
#ifndef CLCNN_CHAIN_ARGS_H
#define CLCNN_CHAIN_ARGS_H

#include "common/args_base.h"

/* A step of a chain: chain.clh, chain_groups.clh. The argument block is whatever the step's own kernel takes. */
#define CHAIN_STEP_BUFFERS 10
struct chain_args {
    i64 word[64];
};
struct chain_step {
    i64 offset[CHAIN_STEP_BUFFERS]; /* addresses, or bytes from a parameter */
    struct chain_args args;
    i32 buffer[CHAIN_STEP_BUFFERS]; /* 0, or which parameter, from 1 on */
    i32 variant, groups;
    i32 wait;  /* steps of the chain that are done before this one begins */
    i32 at;    /* the work-group that takes the first group */
    i32 fixed; /* the operand that is the step's weights, */
    i32 lines; /* and how many cache lines of 128 bytes they are */
};

#endif
