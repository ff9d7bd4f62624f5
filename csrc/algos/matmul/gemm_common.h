/* gemm_common.h: what linear, matmul and gemm share: one argument block, and one emit function a kernel. */
#ifndef CLCNN_ALGOS_GEMM_COMMON_H
#define CLCNN_ALGOS_GEMM_COMMON_H

#include "plan/emit.h"
#include "matmul/gemm_args.h"

/* The problem as y[b] = act(alpha a[b] b[b] + beta c + add[b]); see kernels/matmul/gemm_operands.clh. The rows of
 * linear's x are all its leading dimensions; its bias is c. c is the operand of in[2] in linear and gemm,
 * NULL in matmul or absent. */
struct gemm_problem {
    struct gemm_args args;
    int64_t at[2]; /* where a and b begin in in[0] and in[1], in elements */
    const struct operand *c;
};
struct gemm_problem linear_as_gemm(const struct problem *p);
struct gemm_problem matmul_as_gemm(const struct problem *p);
struct gemm_problem gemm_as_gemm(const struct problem *p);

size_t gemm_items(const struct gemm_args *a); /* product of the batch dimensions */
/* Items that share b and go on where the one before ends, in a, y and the residual, become one taller product. */
void gemm_merge_items(struct gemm_args *a, bool c, bool add);
/* Whether tiles are worth their products: those of a row, a column or a few of them are nearly empty. */
bool gemm_fills_tiles(const struct problem *p, const struct gemm_args *a);
#define GEMM_BUILT_LATER "its kernels take longer to build than panels'"
#define GEMM_EMPTY_TILES "tiles would be nearly empty: few rows or columns"
/* algo_def.effort_of() of one that waits for so many bytes of weights from memory for each multiply-add. */
double gemm_stream_effort(const struct problem *p, double bytes);
/* applicable() of linear layers that read no weights for zeros of x: what they REQUIRE, and whether so many zeros are
 * expected. */
bool linear_can_skip(const struct problem *p, struct why *why);
bool linear_may_skip(const struct problem *p, float least_share, struct why *why);
void gemm_cost(struct step *s, const struct problem *p, const struct gemm_args *a);

/* <op>_fits and <op>_workspace from a file's own applicable() and workspace(), and a function for emit(), whose `call` knows
 * p, e and the product g. */
#define GEMM_LIMITS(op)                                             \
    static bool op##_fits(const struct problem *p, struct why *why) \
    {                                                               \
        const struct gemm_problem g = op##_as_gemm(p);              \
        return applicable(p, &g, why);                              \
    }                                                               \
    static size_t op##_workspace(const struct problem *p)           \
    {                                                               \
        const struct gemm_problem g = op##_as_gemm(p);              \
        return workspace(p, &g);                                    \
    }
#define GEMM_EMIT(name, op, call)                             \
    static void name(const struct problem *p, struct emit *e) \
    {                                                         \
        const struct gemm_problem g = op##_as_gemm(p);        \
        call;                                                 \
    }

void emit_gemm_ref(struct emit *e, const struct problem *p, const struct gemm_problem *g);
bool gemm_clblast_applicable(const struct problem *p, const struct gemm_problem *g, struct why *why);
void emit_gemm_clblast(struct emit *e, const struct problem *p, const struct gemm_problem *g);

#endif
