/* conv_mma: an implicit matrix product on NVIDIA's tensor cores, either float32 as sums of two tf32 values (mma)
 * or operands rounded to tf32 (tf32) or to halves (half), see kernels/conv_nvidia/conv_mma.cl; and its twins for Hopper, whose tensor cores do
 * more at once and take larger tiles (wgmma, float32 as sums of two halves; wgmma_tf32, wgmma_half), see kernels/conv_nvidia/conv_wgmma.cl. */
#include "algos/conv_nvidia/conv_mma_common.h"

static bool ampere(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    const struct mma_choice c = mma_choose(p, &a, (struct mma_form){MMA_AMPERE, products, 0});
    DECIDE(p, c);
    PREFER(why, a.k / a.groups >= 16, "fewer than 16 filters a group leave most of a fragment empty");
    return true;
}

static bool hopper(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, !mma_few_channels(&a), "few channels: rounded up to 16 they would cost a third more");
    const struct mma_choice c = mma_choose(p, &a, (struct mma_form){MMA_HOPPER, products, 0});
    DECIDE(p, c);
    PREFER(why, c.time < mma_expected(p, &a, (struct mma_form){MMA_AMPERE, products, 0}),
           "the smaller tiles of mma are expected to be faster");
    return true;
}

static bool may_mma(const struct problem *p, struct why *why)
{
    return ampere(p, why, MMA_FLOAT32);
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    return ampere(p, why, MMA_TF32);
}

static bool may_half(const struct problem *p, struct why *why)
{
    return ampere(p, why, MMA_HALF);
}

static bool may_wgmma(const struct problem *p, struct why *why)
{
    return hopper(p, why, MMA_FLOAT32);
}

static bool may_wgmma_tf32(const struct problem *p, struct why *why)
{
    return hopper(p, why, MMA_TF32);
}

static bool may_wgmma_half(const struct problem *p, struct why *why)
{
    return hopper(p, why, MMA_HALF);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct mma_choice c;
    DECIDED(p, c);
    return mma_workspace(p, &a, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct mma_choice c;
    DECIDED(p, c);
    conv_cost(emit_mma(e, p, &a, &c, NULL), p);
}

static unsigned fp16_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return mma_fp16(&a);
}

const struct algo_def algo_conv_mma = {
    .name = "mma",
    .doc = "implicit GEMM on NVIDIA tensor cores, three tf32 products for one of float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_mma,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_tf32 = {
    .name = "tf32",
    .doc = "implicit GEMM on NVIDIA tensor cores, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_tf32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_half = {
    .name = "half",
    .doc = "implicit GEMM on NVIDIA tensor cores, filters stored as halves and pixels rounded to them",
    .devices = DEVICES_AMPERE,
    .error = ERROR_MEDIUM,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_half,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_wgmma = {
    .name = "wgmma",
    .doc = "implicit GEMM on Hopper's tensor cores, three products of halves for one of float32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_wgmma,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_wgmma_tf32 = {
    .name = "wgmma_tf32",
    .doc = "implicit GEMM on Hopper's tensor cores, operands rounded to tf32",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_wgmma_tf32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_wgmma_half = {
    .name = "wgmma_half",
    .doc = "implicit GEMM on Hopper's tensor cores, filters stored as halves and pixels rounded to them",
    .devices = DEVICES_HOPPER,
    .error = ERROR_MEDIUM,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_wgmma_half,
    .workspace = workspace,
    .emit = emit,
};
