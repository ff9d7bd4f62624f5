/* conv_mma: an implicit matrix product on NVIDIA's tensor cores, either float32 as sums of two tf32 values (mma)
 * or operands rounded to tf32 (tf32); see kernels/conv_mma.cl. */
#include "algos/conv_mma_common.h"

static const struct mma_form float32 = {MMA_AMPERE, MMA_FLOAT32, 0}, tf32 = {MMA_AMPERE, MMA_TF32, 0};

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    PREFER(why, a.k / a.groups >= 16, "fewer than 16 filters a group leave most of a fragment empty");
    return true;
}

static size_t mma_bytes(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return mma_workspace(p, &a, float32);
}

static void emit_float32(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    conv_cost(emit_mma(e, p, &a, float32), p);
}

static size_t tf32_bytes(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return mma_workspace(p, &a, tf32);
}

static void emit_tf32(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    conv_cost(emit_mma(e, p, &a, tf32), p);
}

const struct algo_def algo_conv_mma = {
    .name = "mma",
    .doc = "implicit GEMM on NVIDIA tensor cores, three tf32 products for one of float32",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = mma_bytes,
    .emit = emit_float32,
};

const struct algo_def algo_conv_tf32 = {
    .name = "tf32",
    .doc = "implicit GEMM on NVIDIA tensor cores, operands rounded to tf32",
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = applicable,
    .workspace = tf32_bytes,
    .emit = emit_tf32,
};
