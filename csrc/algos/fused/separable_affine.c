/* separable_affine: a scale and a shift for each channel (a batch normalisation), an activation, and a 1x1 convolution on
 * NVIDIA's tensor cores that applies both to what it reads; see PRE in kernels/conv_nvidia/conv_mma.clh. */
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/fused/separable_common.h"

/* The 1x1 convolution with the layer's own input. */
static struct conv_args pointwise_of(const struct problem *p, struct separable *parts)
{
    separable_parts(p, parts);
    parts->pw_in[0] = p->in[0];
    return conv_args_of(&parts->pw);
}

static bool may(const struct problem *p, struct why *why, enum mma_products products)
{
    struct separable parts;
    const struct conv_args a = pointwise_of(p, &parts);
    const struct conv_args dw = conv_args_of(&parts.dw);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, conv_is_pointwise(&dw) && dw.k == dw.c && p->in[2].present,
            "the depthwise part must be one scale and one shift a channel");
    const struct mma_choice c = mma_choose_kernel(&parts.pw, &a, products, 0);
    DECIDE(p, c);
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

static unsigned fp16_of(const struct problem *p)
{
    struct separable parts;
    const struct conv_args a = pointwise_of(p, &parts);
    return mma_fp16(&a);
}

static size_t workspace(const struct problem *p)
{
    struct separable parts;
    const struct conv_args a = pointwise_of(p, &parts);
    struct mma_choice c;
    DECIDED(p, c);
    return mma_workspace(&parts.pw, &a, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct separable parts;
    const struct conv_args a = pointwise_of(p, &parts);
    struct mma_choice c;
    DECIDED(p, c);
    const struct separable_args whole = separable_args_of(p);
    const struct mma_prologue pre = {p->in[1].view, p->in[2].view, parts.dw.act, parts.dw.p0, parts.dw.p1};
    separable_cost(emit_mma(e, &parts.pw, &a, &c, &pre), p, &whole);
}

const struct algo_def algo_separable_affine_mma = {
    .name = "affine_mma",
    .doc = "1x1 convolution on NVIDIA tensor cores that scales, shifts and activates what it reads",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_float32,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_separable_affine_tf32 = {
    .name = "affine_tf32",
    .doc = "the same with operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16_of = fp16_of,
    .applicable = may_tf32,
    .workspace = workspace,
    .emit = emit,
};
