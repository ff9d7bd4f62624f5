/* conv_direct: register tiles straight from global memory, on any device; see kernels/conv/conv_direct.cl. */
#include "algos/cost/cost.h"
#include "algos/conv/conv_direct.h"

#define PER_ITEM 4 /* pixels of a work-item, which also computes 8 filters */

int direct_pixels(const struct conv_args *a)
{
    const int filters = a->k / a->groups;
    return filters <= 16 ? 128 : filters <= 32 ? 64 : 32;
}

struct conv_packing direct_packing(int pixels)
{
    return (struct conv_packing){.block = GROUP_SIZE / pixels * 8, .tap_major = true};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    const int side = direct_pixels(&a);
    DECIDE(p, side);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    int side;
    DECIDED(p, side);
    return conv_packing_workspace(p, &a, direct_packing(side));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    int side;
    DECIDED(p, side);
    const struct conv_packing packing = direct_packing(side);
    const int packed = emit_conv_packed(e, p, &a, packing);
    const size_t pixels = (size_t)a.n * (size_t)a.out[1] * (size_t)a.out[2];
    const size_t groups = (size_t)conv_blocks(&a, packing.block) * ceil_div(pixels, (size_t)side * PER_ITEM);
    struct step *s = emit_step(e, "conv_direct", "main", groups, GROUP_SIZE);
    step_define(s, "PL", side);
    step_define(s, "TP", PER_ITEM);
    conv_step(s, p, packed, &a, sizeof a);
}

const struct algo_def algo_conv_direct = {
    .name = "direct",
    .doc = "register tiles of pixels x filters from global memory",
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = DIRECT_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
