/* matmul_tiled: tiles in local memory; see kernels/matmul/gemm_tiled.cl. */
#include "algos/matmul/gemm_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct gemm_problem g = matmul_as_gemm(p);
    PREFER(why, gemm_fills_tiles(p, &g.args), "tiles would be nearly empty: few rows or columns");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct gemm_problem g = matmul_as_gemm(p);
    emit_gemm_tiled(e, p, &g);
}

const struct algo_def algo_matmul_tiled = {
    .name = "tiled",
    .doc = "tiles of both operands in local memory",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
