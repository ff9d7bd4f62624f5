/* step.h: a step of a plan as a description: a kernel or a library call with its operands, before anything is bound. */
#ifndef CLCNN_PLAN_STEP_H
#define CLCNN_PLAN_STEP_H

#include "base/base.h"

#define VIEW_NONE (-1) /* no operand */
#define MAX_STEP_BUFFERS 10
#define MAX_STEP_ARGS 512 /* bytes of the argument block */
#define MAX_DEFINES 24

enum access { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_UPDATE = 3 };

struct define {
    char name[24];
    char text[40]; /* an integer or an identifier */
    bool at_least; /* kernels with a larger integer serve too: see blueprint_share_variants() */
};

struct gemm_call { /* C = alpha * op(A) op(B) + beta * C, row major, through CLBlast */
    size_t m, n, k, batch;
    bool trans_a, trans_b;
    float alpha, beta;
    size_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c; /* elements between items of the batch */
    int64_t a_off, b_off, c_off;          /* elements, added to the views' own offsets */
};

struct step {
    const char *layer, *op, *algo; /* interned by the emit context */
    const char *file;              /* kernels/<family>/<file>.cl; NULL for a library call */
    const char *entry;             /* kernel name without FN(): "main", "pack" */
    struct define define[MAX_DEFINES];
    int n_defines;
    bool commits; /* it changes states, last in a run that commits: args begin with a struct commit_gate */
    bool alone;   /* never part of a chain: these hand every buffer on as floats */
    struct {
        int view;
        enum access access;
        int64_t offset; /* elements, added to the view's offset */
    } buffer[MAX_STEP_BUFFERS];
    int n_buffers;
    unsigned places;      /* bit i: the results may be stored in the place of buffer i, */
    bool stores_in_place; /* as the algorithm does */
    /* A uint, where a step before leaves 0 if this one has nothing to do; view VIEW_NONE: it always runs. The device looks
     * (paste.c, source_chain.c), so that the host need not wait. */
    struct {
        int view;
        int64_t offset;
    } only_if;
    unsigned char args[MAX_STEP_ARGS]; /* argument block, passed by value after the buffers; 0 bytes: none */
    size_t args_bytes;
    size_t groups, group_size;
    struct gemm_call gemm;
    double macs, bytes;
    double effort; /* of the algorithm for its layer, see algo.h; never 0 */
};

#endif
