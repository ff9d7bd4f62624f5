/* gemm_algos.c: the ways of computing that gemm, linear and matmul share. They differ in how the operands are seen as a matrix
 * product, and in when a way is worth taking. */
#include "algos/matmul/gemm_common.h"

static bool always(const struct problem *p, const struct gemm_problem *g, struct why *why)
{
    (void)p, (void)g, (void)why;
    return true;
}

static bool clblast_filled(const struct problem *p, const struct gemm_problem *g, struct why *why)
{
    if (!gemm_clblast_applicable(p, g, why))
        return false;
    PREFER(why, gemm_fills_tiles(p, &g->args), GEMM_EMPTY_TILES);
    return true;
}

/* `way` of computing `op` where `fits` says so. */
#define GEMM_ALGO(op, way, fits, needs_clblast, text)                       \
    static bool op##_##way##_fits(const struct problem *p, struct why *why) \
    {                                                                       \
        const struct gemm_problem g = op##_as_gemm(p);                      \
        return fits(p, &g, why);                                            \
    }                                                                       \
    static void op##_##way##_emit(const struct problem *p, struct emit *e)  \
    {                                                                       \
        const struct gemm_problem g = op##_as_gemm(p);                      \
        emit_gemm_##way(e, p, &g);                                          \
    }                                                                       \
    const struct algo_def algo_##op##_##way = {                             \
        .name = #way,                                                       \
        .doc = text,                                                        \
        .clblast = needs_clblast,                                           \
        .error = ERROR_STRICT,                                              \
        .deterministic = true,                                              \
        .applicable = op##_##way##_fits,                                    \
        .emit = op##_##way##_emit,                                          \
    }

/* By the definition; see kernels/matmul/gemm_ref.cl. */
#define REF(op) GEMM_ALGO(op, ref, always, false, "by the definition, one work-item an output")
REF(gemm);
REF(linear);
REF(matmul);

/* Through CLBlast; see gemm_clblast_common.c. */
#define CLBLAST(op, fits) \
    GEMM_ALGO(op, clblast, fits, true, "CLBlast's GEMM, then one pass for what follows it")
CLBLAST(gemm, gemm_clblast_applicable);
CLBLAST(linear, gemm_clblast_applicable);
CLBLAST(matmul, clblast_filled);
