/* linear_clblast: through CLBlast; see gemm_clblast_common.c. */
#include "algos/matmul/gemm_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct gemm_problem g = linear_as_gemm(p);
    return gemm_clblast_applicable(p, &g, why);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct gemm_problem g = linear_as_gemm(p);
    emit_gemm_clblast(e, p, &g);
}

const struct algo_def algo_linear_clblast = {
    .name = "clblast",
    .doc = "CLBlast's GEMM, then one pass for what follows it",
    .clblast = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
