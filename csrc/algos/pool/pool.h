/* pool.h: what the algorithms share that slide windows. */
#ifndef CLCNN_ALGOS_POOL_H
#define CLCNN_ALGOS_POOL_H

#include "algos/common/rows.h"
#include "pool/pool_args.h"

/* Geometry of a pooling of p->in[0] to p->out[0]; pieces is left to the step. */
struct pool_args pool_args_of(const struct problem *p, const struct pool_attrs *attrs);

/* The pooling that a gradient of maxima belongs to. */
struct problem max_pool_of(const struct problem *grad);
/* What all algorithms of such a gradient tell their step: RECTIFIED, x, dy and dx. */
void max_pool_grad_operands(struct step *s, const struct problem *p);
/* The same of those whose windows are flat and without holes: whether these are; what they tell their step beside that, and its
 * cost; and how many cells a map has along dimension d, of as many elements as the stride, those that begin before it, too. */
bool max_pool_grad_flat(const struct problem *p, const struct pool_args *a, struct why *why);
void max_pool_grad_windows(struct step *s, const struct problem *p, const struct pool_args *a);
int max_pool_grad_cells(const struct pool_args *a, int d);

/* The same on channel blocks: rank 3 is a single row, rank 4 a single slice. `rows` is left to the step. pool_blocked_sizes() leaves windows to
 * pool_blocked_windows(), which sets them, and `kind`, as for maxima. */
struct pool_blocked_args pool_blocked_sizes(const struct problem *p);
void pool_blocked_windows(struct pool_blocked_args *a, const struct pool_attrs *attrs, int dims);
/* `applicable` of the algorithms on channel blocks. */
bool pool_blocked_applicable(const struct problem *p, struct why *why);

/* max_pool and avg_pool on GPUs by the algorithm `way`, from this file's applicable() and emit_pool(). */
#define POOL_ALGO(op, way, what, average, errors)                  \
    static void op##_emit(const struct problem *p, struct emit *e) \
    {                                                              \
        emit_pool(p, e, average);                                  \
    }                                                              \
    const struct algo_def algo_##op##_##way = {                    \
        .name = #way,                                              \
        .doc = what,                                               \
        .devices = DEVICES_GPU,                                    \
        .error = errors,                                           \
        .deterministic = true,                                     \
        .fp16 = FP16_SRC | FP16_DST,                               \
        .applicable = applicable,                                  \
        .emit = op##_emit,                                         \
    }
#define POOL_ALGOS(way, what)                           \
    POOL_ALGO(max_pool, way, what, false, ERROR_EXACT); \
    POOL_ALGO(avg_pool, way, what, true, ERROR_STRICT)

/* What the steps of these begin and end with: the window, and the maps. */
void pool_step(struct step *s, const struct problem *p, const struct pool_args *a, bool average);

#endif
