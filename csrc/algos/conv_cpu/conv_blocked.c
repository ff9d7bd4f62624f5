/* conv_blocked: register tiles over maps with channels in blocks, for CPU devices; see kernels/conv_cpu/conv_blocked.cl. */
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/cost/cost.h"
#include "conv_cpu/conv_cpu_args.h"

#include <limits.h>

/* A window one column wide, at stride 1 and over all columns: its taps are whole rows apart. */
static bool is_upright(const struct conv_args *a)
{
    const int64_t reach = (int64_t)a->dil[1] * a->ker[1] + a->pad[1];
    return reach * a->in[2] < INT_MAX && a->in[0] == 1 && a->ker[0] == 1 && a->out[0] == 1 && a->ker[1] > 1 &&
           a->stride[1] == 1 && a->ker[2] == 1 && a->stride[2] == 1 && a->pad[2] == 0 &&
           a->in[2] == a->out[2];
}

/* As conv_args_of, but a pointwise problem is one long row, and so is one of upright windows, whose taps are as many pixels
 * apart as a row has, so that small maps fill the tiles. */
static struct conv_args blocked_args(const struct problem *p)
{
    struct conv_args a = conv_args_of_slices(p);
    if (is_upright(&a)) {
        a.ker[2] = a.ker[1];
        a.dil[2] = a.dil[1] * a.in[2];
        a.pad[2] = a.pad[1] * a.in[2];
        a.out[2] = a.out[1] * a.in[2];
        a.in[2] = a.in[1] * a.in[2];
        a.in[1] = a.out[1] = a.ker[1] = a.dil[1] = 1;
        a.pad[1] = 0;
    }
    if (conv_is_pointwise(&a)) {
        a.in[2] = a.out[2] = a.in[0] * a.in[1] * a.in[2];
        a.in[0] = a.in[1] = a.out[0] = a.out[1] = 1;
    }
    return a;
}

/* Whether the kernel looks at the lanes of a group's channels and filters: groups are no whole blocks, or so much of the
 * last block of channels is empty that leaving it out pays. */
static bool in_parts(const struct problem *p, const struct conv_args *a)
{
    if (a->groups > 1)
        return conv_groups_in_parts(a, p->block);
    return !p->quick && (blocked_count(p, a->c) * p->block - a->c) * CONV_BLOCKED_EMPTY_RATIO >= a->c;
}

struct chosen {
    struct conv_tile tile;
    int parts;            /* 0 or 1 */
    int k_lanes, c_lanes; /* of a group, with those before it in its first block */
};

/* The most pixels of a tile that lie outside the image for one tap, on the left or the right, when the tiles of a row are
 * full; -1: more than the kernel leaves out, a tap misses both sides, or one kernel is to do for all. */
static int edge_of(const struct problem *p, const struct conv_args *a, const struct conv_tile *tile)
{
    const int stride = a->stride[2], reach = (a->ker[2] - 1) * a->dil[2];
    const int past = (a->out[2] - 1) * stride + reach - a->pad[2] - (a->in[2] - 1);
    const int left = (a->pad[2] + stride - 1) / stride, right = past > 0 ? (past + stride - 1) / stride : 0;
    const int most = left > right ? left : right;
    return !p->quick && a->out[2] >= tile->t && tile->t > 2 * most && most <= 2 &&
                   (tile->t - 1) * stride < a->in[2]
               ? most
               : -1;
}

static bool tile_known(const struct problem *p, const struct conv_args *a, const struct conv_tile *tile)
{
    const struct kernel_define wanted[] = {{"T", tile->t},
                                           {"KV", tile->kv},
                                           {"SW", a->stride[2]},
                                           {"PARTS", in_parts(p, a)},
                                           {"EDGE", edge_of(p, a, tile)}};
    return kernel_known(p, "conv_blocked", "main", wanted, COUNT_OF(wanted));
}

static struct chosen choose(const struct problem *p)
{
    const struct conv_args a = blocked_args(p);
    struct chosen c = {.parts = in_parts(p, &a), .k_lanes = a.k / a.groups, .c_lanes = a.c / a.groups};
    if (c.parts) {
        c.k_lanes = conv_lane_span(a.groups, c.k_lanes, p->block);
        c.c_lanes = conv_lane_span(a.groups, c.c_lanes, p->block);
    }
    struct conv_args spans = a;
    spans.k = a.groups * c.k_lanes;
    c.tile = conv_best_tile(p, &spans, INT_MAX, tile_known);
    return c;
}

static struct conv_packing packing_of(const struct problem *p, const struct chosen *c)
{
    struct conv_packing packing = conv_tile_packing(p, &c->tile, p->block);
    packing.lanes = c->parts ? p->block : 0;
    return packing;
}

static size_t filter_blocks(const struct problem *p, const struct chosen *c)
{
    return ceil_div((size_t)c->k_lanes, (size_t)(c->tile.kv * p->block));
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    const struct chosen chosen = choose(p);
    DECIDE(p, chosen);
    PREFER(why, !p->quick || a.groups == 1, "the kernel that is soon built is slow for groups");
    PREFER(why, p->quick || a.c >= 8 || !conv_is_2d(p), "fewer than 8 channels leave most of a block empty");
    return true;
}

static struct conv_shares shares_of(const struct problem *p, const struct conv_args *a,
                                    const struct chosen *c)
{
    const size_t tiles =
        (size_t)a->out[0] * (size_t)a->out[1] * ceil_div((size_t)a->out[2], (size_t)c->tile.t);
    const size_t input = sizeof(float) * (size_t)operand_item(&p->in[0]) / (size_t)a->groups;
    return conv_shares_of(p, (size_t)a->n, tiles, (size_t)a->groups * filter_blocks(p, c), input);
}

static size_t channel_step(const struct problem *p, const struct conv_args *a, const struct conv_tile *tile,
                           size_t blocks)
{
    const size_t taps = (size_t)(a->ker[0] * a->ker[1] * a->ker[2]);
    return conv_channel_step(p, tile, taps, blocks,
                             taps > 1 ? CONV_BLOCKED_WINDOW_STEP_BYTES : CONV_BLOCKED_STEP_BYTES);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = blocked_args(p);
    struct chosen chosen;
    DECIDED(p, chosen);
    return conv_packing_workspace(p, &a, packing_of(p, &chosen));
}

static double effort_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return blocked_effort(&a, blocked_whole_cost(p, &a));
}

static void define_tile(struct step *s, const struct problem *p, const struct conv_args *a,
                        const struct chosen *c)
{
    step_define(s, "V", p->block);
    step_define(s, "T", c->tile.t);
    step_define(s, "KV", c->tile.kv);
    step_define(s, "SW", a->stride[2]);
    step_define(s, "PARTS", c->parts);
    if (device_traits(p->device).fetches_maps)
        step_define(s, "ASK_MAPS", 0);
    const int edge = edge_of(p, a, &c->tile);
    if (edge >= 0)
        step_define_at_least(s, "EDGE", edge);
    else
        step_define(s, "EDGE", edge);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = blocked_args(p);
    struct chosen chosen;
    DECIDED(p, chosen);
    const int packed = emit_conv_packed(e, p, &a, packing_of(p, &chosen));
    const struct conv_shares shares = shares_of(p, &a, &chosen);
    const size_t c_blocks = ceil_div((size_t)chosen.c_lanes, (size_t)p->block);
    const struct conv_blocked_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .n = a.n,
        .k = a.k,
        .cg = a.c / a.groups,
        .kg = a.k / a.groups,
        .groups = a.groups,
        .c_blocks = (i32)c_blocks,
        .k_blocks = (i32)filter_blocks(p, &chosen),
        .in = {a.in[0], a.in[1], a.in[2]},
        .out = {a.out[0], a.out[1], a.out[2]},
        .ker = {a.ker[0], a.ker[1], a.ker[2]},
        .stride = {a.stride[0], a.stride[1]},
        .pad = {a.pad[0], a.pad[1], a.pad[2]},
        .dil = {a.dil[0], a.dil[1], a.dil[2]},
        .chunks = (i32)shares.chunks,
        .per_item = (i32)shares.per_item,
        .span = (i32)shares.span,
        .c_step = (i32)channel_step(p, &a, &chosen.tile, c_blocks),
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    const size_t work_items = (size_t)args.n * shares.chunks * (size_t)args.k_blocks * (size_t)args.groups;
    struct step *s = emit_step(e, "conv_blocked", "main", work_items, 1);
    define_tile(s, p, &a, &chosen);
    blocked_conv_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_blocked = {
    .name = "blocked",
    .doc = "register tiles of row pixels x filters over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .stores_in_place = true,
    .turned = true,
    .quick = true,
    .effort = BLOCKED_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
