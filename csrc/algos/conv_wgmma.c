/* conv_wgmma: conv_mma.c for Hopper, whose tensor cores do more at once and take larger tiles; see
 * kernels/conv_wgmma.cl. */
#include "algos/conv_mma_common.h"

static const struct mma_form float32 = {MMA_HOPPER, MMA_FLOAT32, 0}, tf32 = {MMA_HOPPER, MMA_TF32, 0};

static bool may(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, !mma_few_channels(&a), "few channels: rounded up to 16 they would cost a third more");
    PREFER(why,
           mma_expected(p, &a, (struct mma_form){MMA_HOPPER, products, 0}) <
               mma_expected(p, &a, (struct mma_form){MMA_AMPERE, products, 0}),
           "the smaller tiles of mma are expected to be faster");
    return true;
}

static bool may_float32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_FLOAT32);
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_TF32);
}

static size_t float32_bytes(const struct problem *p)
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

const struct algo_def algo_conv_wgmma = {
    .name = "wgmma",
    .doc = "implicit GEMM on Hopper's tensor cores, three tf32 products for one of float32",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = may_float32,
    .workspace = float32_bytes,
    .emit = emit_float32,
};

const struct algo_def algo_conv_wgmma_tf32 = {
    .name = "wgmma_tf32",
    .doc = "implicit GEMM on Hopper's tensor cores, operands rounded to tf32",
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_tf32,
    .workspace = tf32_bytes,
    .emit = emit_tf32,
};
