/* conv_transpose_winograd_strided: transposed convolutions at stride 2 by minimal filtering of their phases, over channel blocks, for CPU
 * devices; see kernels/conv_cpu/conv_transpose_winograd_strided.cl. */
#include "algos/conv/conv_transpose_common.h"
#include "algos/conv_cpu/conv_winograd_strided.h"

enum { CHANNEL_BLOCKS = 4 }; /* blocks of channels at a time */

static struct strided_cut cut_of(const struct problem *p, const struct conv_args *a)
{
    size_t tiles = (size_t)a->n, phases = 1;
    double products = 1.0, macs = (double)a->n * a->k * (a->c / a->groups);
    for (int d = 1; d < 3; d++) {
        int points = 0;
        double met = 0.0;
        for (int q = 0; q < a->stride[d]; q++) {
            const struct conv_phase f = conv_phase_of(a, d, q);
            points += STRIDED_SIDE - 1 + f.taps; /* one tap has a product a pixel, two have one more */
            met += (double)f.outputs * f.taps;
        }
        products *= points;
        macs *= met;
        tiles *= ceil_div((size_t)conv_phase_of(a, d, 0).outputs, STRIDED_SIDE);
        phases *= (size_t)conv_phases_of(a).count[d - 1];
    }
    return strided_cut_of(p, a, tiles, phases, products, macs);
}

static bool is_side(int ker)
{
    return ker == 3 || ker == 4;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_transpose_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, conv_is_2d(p), "minimal filtering is for one and two dimensions");
    REQUIRE(why,
            is_side(a.ker[1]) && is_side(a.ker[2]) && a.stride[1] == 2 && a.stride[2] == 2 && a.dil[1] == 1 &&
                a.dil[2] == 1,
            "minimal filtering of phases is for filters of 3 and 4 taps at stride 2 without dilation");
    REQUIRE(why, !conv_groups_in_parts(&a, p->block), GROUPS_IN_PARTS);
    const struct strided_cut c = cut_of(p, &a);
    DECIDE(p, c);
    PREFER(why, strided_worthwhile(p, &a, &c), "too few tiles or filters to pay for the transforms");
    return true;
}

static struct conv_packing packing_of(const struct problem *p, const struct conv_args *a,
                                      const struct strided_cut *c)
{
    return conv_transpose_packing(a, c->tile.kv * p->block, p->block);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct strided_cut c;
    DECIDED(p, c);
    return conv_packing_workspace(p, &a, packing_of(p, &a, &c));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct strided_cut c;
    DECIDED(p, c);
    const int packed = emit_conv_packed(e, p, &a, packing_of(p, &a, &c));
    struct conv_transpose_blocked_args args = conv_transpose_blocked_block(p, &a);
    args.c_blocks = (i32)c.c_blocks;
    args.k_blocks = (i32)c.k_blocks;
    args.chunks = (i32)c.ranges;
    args.per_item = (i32)ceil_div(c.tile_blocks, c.ranges);
    struct step *s = emit_strided(e, p, &a, "conv_transpose_winograd_strided", &c);
    step_define(s, "CHANNEL_BLOCKS", CHANNEL_BLOCKS);
    blocked_step(s, p, packed, &args, sizeof args);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_winograd_strided = {
    .name = "winograd_strided",
    .doc =
        "minimal filtering of phases of 3x3 and 4x4 filters at stride 2, tiles of 4x4, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
