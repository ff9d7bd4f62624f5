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

/* What a work-group of chain.clh is to walk. The host fills it in where it calls the machine code itself
 * (csrc/runtime/chain_call.c), with addresses in the place of memory objects. */
#define CHAIN_WALK_BASES 17
struct chain_walk {
    i64 base[CHAIN_WALK_BASES]; /* 0, and of what may be another memory in every run */
    i64 steps, counters;        /* the table and its counters */
    i32 count, set;
    i32 first, past, low, high;
    i32 part, parts; /* which work-group of how many */
};
/* What the kernel tells instead of walking, when it is asked for steps up to -1. */
struct chain_told {
    i64 code, steps, counters; /* the address of chain_walk(), and of the kernel's memory */
    i64 scratch;               /* bytes */
};

#endif
