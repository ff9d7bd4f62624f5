/* conv_pool_direct: the register tiles of conv_direct, each the window of one pooled pixel; see
 * kernels/fused/conv_pool_direct.cl. */
#include "algos/cost/cost.h"
#include "algos/conv/conv_direct.h"
#include "algos/fused/conv_pool_common.h"

static size_t groups_of(const struct conv_pool_args *a, int side)
{
    const size_t pixels = (size_t)a->conv.n * (size_t)a->pooled[0] * (size_t)a->pooled[1];
    return (size_t)conv_blocks(&a->conv, direct_packing(side).block) * ceil_div(pixels, (size_t)side);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    REQUIRE(why, conv_pool_side_by_side(p), NOT_SIDE_BY_SIDE);
    const int side = direct_pixels(&a.conv);
    DECIDE(p, side);
    PREFER(why, conv_pool_same_conv(p, &algo_conv_direct), CONVOLVED_FASTER);
    PREFER(why, groups_of(&a, side) >= p->device->compute_units, "too few windows for the compute units");
    return true;
}

static size_t workspace(const struct problem *p)
{
    int side;
    DECIDED(p, side);
    return conv_pool_packing_workspace(p, direct_packing(side));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    int side;
    DECIDED(p, side);
    struct step *s =
        emit_conv_pool(e, p, "conv_pool_direct", groups_of(&a, side), GROUP_SIZE, direct_packing(side));
    step_define(s, "PL", side);
}

const struct algo_def algo_conv_pool_direct = {
    .name = "direct",
    .doc = "register tiles of a window x filters from global memory, pooled in registers",
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = DIRECT_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
