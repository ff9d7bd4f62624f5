/* conv_transpose_direct: register tiles of the phases of a transposed convolution, on any device; see
 * kernels/conv/conv_transpose_direct.cl. */
#include "algos/conv/conv_direct.h"
#include "algos/conv/conv_transpose_common.h"

#define PER_ITEM 4 /* pixels of a work-item, which also computes 8 filters */

static struct conv_packing packing_of(const struct conv_args *a, int side)
{
    return conv_transpose_packing(a, direct_packing(side).block, 1);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_transpose_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D transposed convolutions are left to ref");
    const int side = direct_pixels(&a);
    DECIDE(p, side);
    PREFER(why, a.k > a.groups, "one filter a group leaves seven eighths of the tile empty");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_transpose_args_of(p);
    int side;
    DECIDED(p, side);
    return conv_packing_workspace(p, &a, packing_of(&a, side));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p);
    int side;
    DECIDED(p, side);
    const struct conv_packing packing = packing_of(&a, side);
    const int packed = emit_conv_packed(e, p, &a, packing);
    const size_t tiles = ceil_div((size_t)a.n * conv_phase_pixels(&a), (size_t)side * PER_ITEM);
    const struct conv_transpose_args args = conv_transpose_block(&a, tiles, 1);
    const size_t phases = (size_t)args.phases.count[0] * (size_t)args.phases.count[1];
    struct step *s = emit_step(e, "conv_transpose_direct", "main",
                               (size_t)conv_blocks(&a, packing.block) * phases * tiles, GROUP_SIZE);
    step_define(s, "PL", side);
    step_define(s, "TP", PER_ITEM);
    conv_step(s, p, packed, &args, sizeof args);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_direct = {
    .name = "direct",
    .doc = "register tiles of a phase's pixels x filters from global memory",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
