/* conv_pool_tiles: convolutions on GPUs whose tiles hold whole windows of 2x2, pooled as they are finished; see
 * kernels/conv/conv_winograd_gemm.cl, kernels/conv_nvidia/conv_mma.cl and conv_wgmma.cl. */
#include "algos/conv/conv_winograd_gemm.h"
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/cost/cost.h"
#include "algos/fused/conv_pool_common.h"

/* ---- Winograd's ---- */

static bool may_winograd(const struct problem *p, struct why *why, bool tensor_cores,
                         const struct algo_def *alone)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    if (!conv_pool_two_by_two(p, why) || !winograd_gemm_applicable(&parts.conv, why, tensor_cores))
        return false;
    PREFER(why, algo_preferred(&parts.conv) == alone, CONVOLVED_FASTER);
    return true;
}

static bool may_winograd_gemm(const struct problem *p, struct why *why)
{
    return may_winograd(p, why, false, &algo_conv_winograd_gemm);
}

static bool may_winograd_mma(const struct problem *p, struct why *why)
{
    return may_winograd(p, why, true, &algo_conv_winograd_mma);
}

static size_t winograd_gemm_bytes(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return winograd_gemm_workspace(&parts.conv, false);
}

static size_t winograd_mma_bytes(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return winograd_gemm_workspace(&parts.conv, true);
}

static void emit_winograd_gemm_form(const struct problem *p, struct emit *e)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    emit_winograd_gemm(&parts.conv, e, &p->out[0], conv_pool_kind(p), false);
}

static void emit_winograd_mma_form(const struct problem *p, struct emit *e)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    emit_winograd_gemm(&parts.conv, e, &p->out[0], conv_pool_kind(p), true);
}

/* ---- products on tensor cores ---- */

static bool may_products(const struct problem *p, struct why *why, struct mma_form form,
                         const struct algo_def *alone)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    const struct conv_args a = conv_args_of(&parts.conv);
    if (!conv_pool_two_by_two(p, why))
        return false;
    REQUIRE(why, mma_on_device(p, form.kernel), "the device has no such tensor cores");
    REQUIRE(why, a.out[1] % 2 == 0 && a.out[2] % 2 == 0, "maps of even sides are needed");
    REQUIRE(why, !conv_is_pointwise(&a),
            "1x1 windows are copied by rows, whose order is not that of windows to pool");
    REQUIRE(why, !p->add.present, "nothing can be added before windows are pooled");
    REQUIRE(why, form.kernel == MMA_AMPERE || !mma_few_channels(&a),
            "few channels: rounded up to 16 they would cost a third more");
    const struct mma_choice c = mma_choose(&parts.conv, &a, form);
    REQUIRE(why, c.split_k == 1, "the depth is shared by groups, whose sums are added up later");
    DECIDE(p, c);
    PREFER(why, algo_preferred(&parts.conv) == alone, CONVOLVED_FASTER);
    PREFER(why, 4 * shape_count(&parts.mid.shape) >= MMA_POOLED_LEAST_BYTES,
           "the map between would stay in the cache");
    return true;
}

static size_t mma_bytes(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    const struct conv_args a = conv_args_of(&parts.conv);
    struct mma_choice c;
    DECIDED(p, c);
    return mma_workspace(&parts.conv, &a, &c);
}

static void emit_mma_form(const struct problem *p, struct emit *e)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    struct conv_args a = conv_args_of(&parts.conv);
    struct mma_choice c;
    DECIDED(p, c);
    parts.conv.out = &p->out[0];
    a.dst_n = p->out[0].batch_stride;
    conv_pool_cost(emit_mma_pooled(e, &parts.conv, &a, &c, conv_pool_kind(p)), p);
}

#define MAY(name, kernel, products)                                                             \
    static bool may_##name(const struct problem *p, struct why *why)                            \
    {                                                                                           \
        return may_products(p, why, (struct mma_form){kernel, products, 0}, &algo_conv_##name); \
    }
MAY(mma, MMA_AMPERE, MMA_FLOAT32)
MAY(tf32, MMA_AMPERE, MMA_TF32)
MAY(wgmma, MMA_HOPPER, MMA_FLOAT32)
MAY(wgmma_tf32, MMA_HOPPER, MMA_TF32)

const struct algo_def algo_conv_pool_winograd_gemm = {
    .name = "winograd_gemm",
    .doc = "Winograd's F(4x4, 3x3) around implicit GEMM's tiles, pooled by 2x2",
    .devices = DEVICES_GPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .applicable = may_winograd_gemm,
    .workspace = winograd_gemm_bytes,
    .emit = emit_winograd_gemm_form,
};

const struct algo_def algo_conv_pool_winograd_mma = {
    .name = "winograd_mma",
    .doc = "Winograd's F(4x4, 3x3) around products on NVIDIA tensor cores, pooled by 2x2",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = may_winograd_mma,
    .workspace = winograd_mma_bytes,
    .emit = emit_winograd_mma_form,
};

const struct algo_def algo_conv_pool_mma = {
    .name = "mma",
    .doc = "implicit GEMM on NVIDIA tensor cores as float32, pooled by 2x2",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .applicable = may_mma,
    .workspace = mma_bytes,
    .emit = emit_mma_form,
};

const struct algo_def algo_conv_pool_tf32 = {
    .name = "tf32",
    .doc = "implicit GEMM on NVIDIA tensor cores, operands rounded to tf32, pooled by 2x2",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_tf32,
    .workspace = mma_bytes,
    .emit = emit_mma_form,
};

const struct algo_def algo_conv_pool_wgmma = {
    .name = "wgmma",
    .doc = "implicit GEMM on Hopper's tensor cores as float32, pooled by 2x2",
    .devices = DEVICES_HOPPER,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = may_wgmma,
    .workspace = mma_bytes,
    .emit = emit_mma_form,
};

const struct algo_def algo_conv_pool_wgmma_tf32 = {
    .name = "wgmma_tf32",
    .doc = "implicit GEMM on Hopper's tensor cores, operands rounded to tf32, pooled by 2x2",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_wgmma_tf32,
    .workspace = mma_bytes,
    .emit = emit_mma_form,
};
