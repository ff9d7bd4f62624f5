/* conv_transpose_winograd_strided: transposed convolutions at stride 2 by minimal filtering of their phases, over channel blocks, for CPU
 * devices; see kernels/conv_cpu/conv_transpose_winograd_strided.cl. */
#include "algos/conv/conv_transpose_common.h"
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/conv_cpu/conv_winograd.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"

enum {
    M = 4,             /* pixels of a tile in one dimension, of a phase */
    TILE_BLOCKS = 2,   /* blocks of tiles of a work-item, at most */
    FILTER_BLOCKS = 4, /* blocks of filters of a work-item, at most */
    CHANNEL_BLOCKS = 4 /* blocks of channels at a time */
};

/* How a problem is cut. */
struct cut {
    struct conv_tile tile;
    size_t tiles, tile_blocks, ranges; /* of a phase in the batch; blocks of tile.t; work-items for them */
    size_t phases, c_blocks, k_blocks, chunks; /* of a group; chunks are FILTER_BLOCKS of filters */
};

static struct cut cut_of(const struct problem *p, const struct conv_args *a)
{
    struct cut c = {
        .tile = p->block == 16 ? (struct conv_tile){14, 2, 1.0} : (struct conv_tile){6, 2, 1.0},
        .tiles = (size_t)a->n,
        .phases = 1,
        .c_blocks = ceil_div((size_t)(a->c / a->groups), (size_t)p->block),
    };
    for (int d = 1; d < 3; d++) {
        c.tiles *= ceil_div((size_t)conv_phase_of(a, d, 0).outputs, M);
        c.phases *= (size_t)conv_phases_of(a).count[d - 1];
    }
    c.tile_blocks = ceil_div(c.tiles, (size_t)c.tile.t);
    c.ranges = ceil_div(c.tile_blocks, TILE_BLOCKS);
    c.k_blocks = ceil_div((size_t)(a->k / a->groups), (size_t)(c.tile.kv * p->block));
    c.chunks = ceil_div(c.k_blocks, FILTER_BLOCKS);
    return c;
}

/* Products of a tile in all phases: 5 a phase and dimension with two taps, 4 with one. */
static double products_of(const struct conv_args *a)
{
    double products = 1.0;
    for (int d = 1; d < 3; d++) {
        int points = 0;
        for (int q = 0; q < a->stride[d]; q++)
            points += M - 1 + conv_phase_of(a, d, q).taps;
        products *= points;
    }
    return products;
}

/* Time in multiply-adds at the peak. */
static double cost_of(const struct problem *p, const struct conv_args *a, const struct cut *c)
{
    const double filters = (double)((size_t)a->groups * c->k_blocks * (size_t)(c->tile.kv * p->block)) *
                           (double)(c->c_blocks * (size_t)p->block);
    const double values = products_of(a), larger = values / WINOGRAD_STRIDED_PRODUCTS;
    const double products =
        (double)(c->tile_blocks * (size_t)c->tile.t) * filters * values / WINOGRAD_STRIDED_PEAK_RATIO;
    const double transforms =
        (double)c->ranges * WINOGRAD_STRIDED_FILTER_MACS * larger * filters +
        (double)c->tiles * (WINOGRAD_STRIDED_IN_MACS * larger * (double)c->chunks * a->c +
                            WINOGRAD_STRIDED_OUT_MACS * (double)c->phases * a->k);
    return (products + transforms) *
           profile_factor(p->device, PROFILE_winograd_strided_small, products + transforms);
}

/* Of the direct kernel, whose tiles of pixels meet the taps of a phase. */
static double direct_cost(const struct conv_args *a)
{
    double macs = (double)a->n * a->k * (a->c / a->groups);
    for (int d = 1; d < 3; d++) {
        double met = 0.0;
        for (int q = 0; q < a->stride[d]; q++) {
            const struct conv_phase f = conv_phase_of(a, d, q);
            met += (double)f.outputs * f.taps;
        }
        macs *= met;
    }
    return macs / DIRECT_PEAK_RATIO;
}

/* Whether it is faster than the direct kernel, which cuts a layer into smaller pieces: with few, cores wait at the end. */
static bool worthwhile(const struct problem *p, const struct conv_args *a, const struct cut *c)
{
    const size_t items = c->ranges * c->chunks * c->phases * (size_t)a->groups;
    const double uneven = (double)round_up(items, device_units(p->device)) / (double)items;
    return cost_of(p, a, c) * uneven < WINOGRAD_STRIDED_WORTH_RATIO * direct_cost(a);
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
    const struct cut c = cut_of(p, &a);
    DECIDE(p, c);
    PREFER(why, worthwhile(p, &a, &c), "too few tiles or filters to pay for the transforms");
    return true;
}

static struct conv_packing packing_of(const struct problem *p, const struct conv_args *a, const struct cut *c)
{
    return conv_transpose_packing(a, c->tile.kv * p->block, p->block);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct cut c;
    DECIDED(p, c);
    return conv_packing_workspace(p, &a, packing_of(p, &a, &c));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p);
    struct cut c;
    DECIDED(p, c);
    const int packed = emit_conv_packed(e, p, &a, packing_of(p, &a, &c));
    const struct conv_transpose_blocked_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .n = a.n,
        .k = a.k,
        .kg = a.k / a.groups,
        .groups = a.groups,
        .c_blocks = (i32)c.c_blocks,
        .k_blocks = (i32)c.k_blocks,
        .chunks = (i32)c.ranges,
        .per_item = (i32)ceil_div(c.tile_blocks, c.ranges),
        .phases = conv_phases_of(&a),
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    struct step *s = emit_step(e, "conv_transpose_winograd_strided", "main",
                               c.ranges * c.chunks * c.phases * (size_t)a.groups, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", c.tile.t);
    step_define(s, "KV", c.tile.kv);
    step_define(s, "TILE_BLOCKS", TILE_BLOCKS);
    step_define(s, "FILTER_BLOCKS", FILTER_BLOCKS);
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
