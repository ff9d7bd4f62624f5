/* gemm_ref: by the definition; see kernels/matmul/gemm_ref.cl. */
#include "algos/matmul/gemm_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct gemm_problem g = gemm_as_gemm(p);
    emit_gemm_ref(e, p, &g);
}

const struct algo_def algo_gemm_ref = {
    .name = "ref",
    .doc = "by the definition, one work-item an output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
