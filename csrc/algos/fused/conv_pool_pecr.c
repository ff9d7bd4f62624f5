/* conv_pool_pecr: lists of what is not zero, as in conv_ecr, and pooling in registers; see
 * kernels/fused/conv_pool_pecr.cl. */
#include "algos/conv/ecr.h"
#include "algos/cost/cost.h"
#include "algos/fused/conv_pool_common.h"

#include <float.h>

static struct ecr_cut cut_of(const struct problem *p)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    return ecr_cut_of(p, &a.conv, conv_pool_window(p, 0) * conv_pool_window(p, 1));
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, conv_pool_side_by_side(p), NOT_SIDE_BY_SIDE);
    const struct ecr_cut cut = cut_of(p);
    DECIDE(p, cut);
    PREFER(why, false, ZEROS_UNKNOWN);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct ecr_cut cut;
    DECIDED(p, cut);
    return conv_pool_packing_workspace(p, ecr_packing(&cut));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    struct ecr_cut cut;
    DECIDED(p, cut);
    const struct conv_ecr_args args = {
        .conv = a.conv,
        .pooled = {a.pooled[0], a.pooled[1]},
        .skip = conv_skips_zeros(p, e, FLT_MAX),
    };
    const int packed = emit_conv_packed(e, p, &a.conv, ecr_packing(&cut));
    const size_t pixels = (size_t)a.conv.n * (size_t)a.pooled[0] * (size_t)a.pooled[1] * (size_t)cut.pixels;
    struct step *s = emit_ecr(e, &a.conv, &cut, "conv_pool_pecr", pixels);
    conv_pool_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_pool_pecr = {
    .name = "pecr",
    .doc = "lists of what is not zero in the windows of the convolution's pixels, pooled in registers",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = ECR_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
