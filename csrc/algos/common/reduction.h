/* reduction.h: reductions over any axes as walks over as few dimensions as there can be. */
#ifndef CLCNN_ALGOS_REDUCTION_H
#define CLCNN_ALGOS_REDUCTION_H

#include "algos/common/lines.h"

bool reduce_drops(const struct reduce_attrs *attrs, int dim);

/* What a reduction comes down to: where the work-items go. */
struct reduction {
    struct reduce_args args; /* of the last reduced dimension, one part */
    bool columns;            /* the innermost dimension is kept */
    int64_t outputs, length; /* length: of the last reduced dimension */
    int walks;               /* dimensions that reduction_take_apart() has made outputs */
};
/* Depends on strides, which layouts change after applicable(), so that it is nothing to DECIDE. */
struct reduction reduction_of(const struct problem *p);
/* Makes outputs of the reduced dimensions but the last: the first pass takes one walk each, whose results are parts of an output. */
void reduction_take_apart(struct reduction *r);
/* Cuts the last reduced dimension into up to `parts` parts, as many as scratch for their results allows. */
void reduction_cut(const struct problem *p, struct reduction *r, int64_t parts);
size_t reduction_workspace(const struct reduction *r);

/* The argument block of a pass for GPUs but `pieces`, in which work-items take the innermost kept dimension where columns are reduced. */
struct lanes_reduce_args reduction_lanes_args(const struct reduction *r);

/* Emits a pass over the view `from`, whose results go to `to`; red: what combines two numbers. */
typedef void reduction_pass(const struct problem *p, struct emit *e, const struct reduction *r,
                            const char *red, int from, int to);
/* The pass `first`; where it has parts, another one over their results. mean: divided by how many elements an output has. */
void reduction_emit(const struct problem *p, struct emit *e, struct reduction first, const char *red,
                    bool mean, reduction_pass *pass);

/* Algorithm `algo` of the operators whose first pass over floats is of(p); emit_pass() emits it, and the rest are fields of
 * struct algo_def. */
#define REDUCTION_ALGOS(algo, of, ...)                                                 \
    REDUCTION_ALGO(algo, of, reduce_sum, "red_sum", false, ERROR_STRICT, __VA_ARGS__); \
    REDUCTION_ALGO(algo, of, reduce_mean, "red_sum", true, ERROR_STRICT, __VA_ARGS__); \
    REDUCTION_ALGO(algo, of, reduce_max, "red_max", false, ERROR_EXACT, __VA_ARGS__);  \
    REDUCTION_ALGO(algo, of, reduce_min, "red_min", false, ERROR_EXACT, __VA_ARGS__)
#define REDUCTION_ALGO(algo, of, op, red, mean, class, ...)        \
    static void emit_##op(const struct problem *p, struct emit *e) \
    {                                                              \
        reduction_emit(p, e, of(p), red, mean, emit_pass);         \
    }                                                              \
    const struct algo_def algo_##op##_##algo = {                   \
        .name = #algo, .error = class, .deterministic = true, .emit = emit_##op, __VA_ARGS__}

#endif
