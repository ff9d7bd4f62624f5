/* conv_pool_winograd: the tiles of conv_winograd, pooled as they are finished; see kernels/conv_cpu/conv_winograd.cl. */
#include "algos/cost/cost.h"
#include "algos/common/blocked.h"
#include "algos/fused/conv_pool_common.h"
#include "algos/conv_cpu/conv_winograd.h"

static bool applicable(const struct problem *p, struct why *why, const struct filtering *f,
                       const struct algo_def *alone)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    operand_set_layout(&parts.mid, p->block);
    const struct conv_args a = conv_args_of(&parts.conv);
    REQUIRE(why, a.dil[1] == 1 && a.dil[2] == 1, "tiles of a dilated filter hold no whole windows");
    REQUIRE(why, !conv_groups_in_parts(&a, p->block), GROUPS_IN_PARTS);
    if (!conv_pool_two_by_two(p, why) || !winograd_applicable(&parts.conv, why, f))
        return false;
    PREFER(why, algo_preferred(&parts.conv) == alone, CONVOLVED_FASTER);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return winograd_workspace(&parts.conv);
}

static double effort4(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return algo_conv_winograd.effort_of(&parts.conv);
}

static double effort2(const struct problem *p)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    return algo_conv_winograd2.effort_of(&parts.conv);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct conv_pool parts;
    conv_pool_parts(p, &parts);
    emit_winograd(&parts.conv, e, &p->out[0], conv_pool_kind(p));
}

static bool applicable4(const struct problem *p, struct why *why)
{
    return applicable(p, why, &winograd_f4x3, &algo_conv_winograd);
}

static bool applicable2(const struct problem *p, struct why *why)
{
    return applicable(p, why, &winograd_f2x3, &algo_conv_winograd2);
}

const struct algo_def algo_conv_pool_winograd = {
    .name = "winograd",
    .doc = "Winograd's F(4x4, 3x3), pooled by 2x2 in its tiles, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = WINOGRAD_EFFORT_PERCENT,
    .effort_of = effort4,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable4,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_pool_winograd2 = {
    .name = "winograd2",
    .doc = "Winograd's F(2x2, 3x3), pooled by 2x2 in its tiles, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = WINOGRAD2_EFFORT_PERCENT,
    .effort_of = effort2,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable2,
    .workspace = workspace,
    .emit = emit,
};
