/* matmul_clblast: through CLBlast; see gemm_clblast_common.c. */
#include "algos/matmul/gemm_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct gemm_problem g = matmul_as_gemm(p);
    if (!gemm_clblast_applicable(p, &g, why))
        return false;
    PREFER(why, gemm_fills_tiles(p, &g.args), "tiles would be nearly empty: few rows or columns");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct gemm_problem g = matmul_as_gemm(p);
    emit_gemm_clblast(e, p, &g);
}

const struct algo_def algo_matmul_clblast = {
    .name = "clblast",
    .doc = "CLBlast's GEMM, then one pass for what follows it",
    .clblast = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
