/* conv_transpose_blocked: register tiles of the phases of a transposed convolution over maps with channels in blocks, for CPU
 * devices; see kernels/conv_cpu/conv_transpose_blocked.cl. */
#include "algos/conv/conv_transpose_common.h"
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/cost/cost.h"

/* Tiles of 8, or 4, divide the rows of most decoders, and so read the input where it lies more often than wider ones. */
static const struct conv_tile wide_tiles[] = {{8, 2, 1.0}, {8, 1, 1.25}};
static const struct conv_tile narrow_tiles[] = {{4, 3, 1.0}, {4, 2, 1.08}, {8, 1, 1.4}};

static struct conv_tile best_tile(const struct problem *p, const struct conv_args *a)
{
    const bool wide = p->block == 16;
    const struct conv_tile *tiles = wide ? wide_tiles : narrow_tiles, *best = NULL;
    const int count = wide ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        const double work = conv_tile_work(p, a, &tiles[i], (size_t)a->n * conv_phase_pixels(a));
        if (!best || work < least) {
            least = work;
            best = &tiles[i];
        }
    }
    return *best;
}

static struct conv_packing packing_of(const struct problem *p, const struct conv_args *a,
                                      const struct conv_tile *tile)
{
    return conv_transpose_packing(a, tile->kv * p->block, p->block);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_transpose_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, !conv_groups_in_parts(&a, p->block), GROUPS_IN_PARTS);
    const struct conv_tile tile = best_tile(p, &a);
    DECIDE(p, tile);
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct conv_tile tile;
    DECIDED(p, tile);
    return conv_packing_workspace(p, &a, packing_of(p, &a, &tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct conv_tile tile;
    DECIDED(p, tile);
    const int packed = emit_conv_packed(e, p, &a, packing_of(p, &a, &tile));
    const struct conv_phases phases = conv_phases_of(&a), depth = conv_depth_phases_of(&a);
    const size_t parts = (size_t)(depth.count[0] * phases.count[0] * phases.count[1]) *
                         (size_t)conv_blocks(&a, tile.kv * p->block);
    /* all images together: the pixels of a phase are counted through them */
    const size_t tiles = ceil_div((size_t)a.n * conv_phase_pixels(&a), (size_t)tile.t);
    const size_t input = sizeof(float) * (size_t)a.n * (size_t)operand_item(&p->in[0]) / (size_t)a.groups;
    const struct conv_shares shares = conv_shares_of(p, 1, tiles, parts, input);
    const size_t c_blocks = ceil_div((size_t)(a.c / a.groups), (size_t)p->block);
    struct conv_transpose_blocked_args args = conv_transpose_blocked_block(p, &a);
    args.c_blocks = (i32)c_blocks;
    args.k_blocks = conv_blocks(&a, tile.kv * p->block) / a.groups;
    args.chunks = (i32)shares.chunks;
    args.per_item = (i32)shares.per_item;
    args.span = (i32)shares.span;
    args.c_step =
        (i32)conv_channel_step(p, &tile, (size_t)conv_phase_taps(&a), c_blocks, CONV_BLOCKED_STEP_BYTES);
    struct step *s = emit_step(e, "conv_transpose_blocked", "main", shares.chunks * parts, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", tile.t);
    step_define(s, "KV", tile.kv);
    blocked_step(s, p, packed, &args, sizeof args);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_blocked = {
    .name = "blocked",
    .doc = "register tiles of a phase's pixels x filters over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
