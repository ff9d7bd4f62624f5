/* conv_winograd_strided: 3x3 and 4x4 filters at stride 2 by minimal filtering of phases, over channel blocks, for CPU devices; see
 * kernels/conv_cpu/conv_winograd_strided.cl. */
#include "algos/conv_cpu/conv_winograd_strided.h"
#include "algos/conv_cpu/conv_winograd.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"

enum {
    TILE_BLOCKS = 2,    /* blocks of tiles of a work-item, at most */
    FILTER_BLOCKS = 4,  /* blocks of filters of a work-item, at most */
    ITEMS_PER_UNIT = 2, /* at least: for less the kernel is not worth its build */
    LEAST_PRODUCTS = 81 /* of a tile by 3x3 filters, which the costs of transforms are of */
};

/* ---- what transposed convolutions share ------------------------------------------------------------------- */

struct strided_cut strided_cut_of(const struct problem *p, const struct conv_args *a, size_t tiles,
                                  size_t phases, double products, double macs)
{
    struct strided_cut c = {
        .tile = p->block == 16 ? (struct conv_tile){14, 2, 1.0} : (struct conv_tile){6, 2, 1.0},
        .tiles = tiles,
        .phases = phases,
        .c_blocks = ceil_div((size_t)(a->c / a->groups), (size_t)p->block),
        .products = products,
        .macs = macs,
    };
    c.tile_blocks = ceil_div(c.tiles, (size_t)c.tile.t);
    c.ranges = ceil_div(c.tile_blocks, TILE_BLOCKS);
    c.k_blocks = ceil_div((size_t)(a->k / a->groups), (size_t)(c.tile.kv * p->block));
    c.chunks = ceil_div(c.k_blocks, FILTER_BLOCKS);
    return c;
}

size_t strided_items(const struct conv_args *a, const struct strided_cut *c)
{
    return c->ranges * c->chunks * c->phases * (size_t)a->groups;
}

double strided_cost(const struct problem *p, const struct conv_args *a, const struct strided_cut *c)
{
    const double filters = (double)((size_t)a->groups * c->k_blocks * (size_t)(c->tile.kv * p->block)) *
                           (double)(c->c_blocks * (size_t)p->block);
    const double products =
        (double)(c->tile_blocks * (size_t)c->tile.t) * filters * c->products / WINOGRAD_STRIDED_PEAK_RATIO;
    const double values = c->products / LEAST_PRODUCTS;
    const double transforms =
        (double)c->ranges * WINOGRAD_STRIDED_FILTER_MACS * values * filters +
        (double)c->tiles * (WINOGRAD_STRIDED_IN_MACS * values * (double)c->chunks * a->c +
                            WINOGRAD_STRIDED_OUT_MACS * (double)c->phases * a->k);
    return (products + transforms) * profile_factor(p->device, PROFILE_winograd_strided_small, c->macs);
}

/* The direct kernel cuts a layer into smaller pieces: with few, cores wait at the end. */
bool strided_worthwhile(const struct problem *p, const struct conv_args *a, const struct strided_cut *c)
{
    const size_t items = strided_items(a, c);
    const size_t units = device_units(p->device);
    const double uneven = (double)round_up(items, units) / (double)items;
    return items >= ITEMS_PER_UNIT * units &&
           strided_cost(p, a, c) * uneven < WINOGRAD_STRIDED_WORTH_RATIO * c->macs / DIRECT_PEAK_RATIO;
}

struct step *emit_strided(struct emit *e, const struct problem *p, const struct conv_args *a,
                          const char *file, const struct strided_cut *c)
{
    struct step *s = emit_step(e, file, "main", strided_items(a, c), 1);
    step_define(s, "V", p->block);
    step_define(s, "T", c->tile.t);
    step_define(s, "KV", c->tile.kv);
    step_define(s, "TILE_BLOCKS", TILE_BLOCKS);
    step_define(s, "FILTER_BLOCKS", FILTER_BLOCKS);
    return s;
}

/* ---- convolutions ------------------------------------------------------------------------------------------ */

static struct strided_cut cut_of(const struct problem *p, const struct conv_args *a)
{
    const int span = a->ker[1] + 2 * (STRIDED_SIDE - 1);
    return strided_cut_of(p, a, winograd_tiles(a, STRIDED_SIDE), 1, span * span, conv_macs(a));
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, conv_is_2d(p), "minimal filtering is for one and two dimensions");
    REQUIRE(why,
            a.ker[0] == 1 && (a.ker[1] == 3 || a.ker[1] == 4) && a.ker[2] == a.ker[1] && a.stride[1] == 2 &&
                a.stride[2] == 2 && a.dil[1] == 1 && a.dil[2] == 1,
            "minimal filtering of phases is for 3x3 and 4x4 filters at stride 2 without dilation");
    REQUIRE(why, !conv_groups_in_parts(&a, p->block), GROUPS_IN_PARTS);
    const struct strided_cut c = cut_of(p, &a);
    DECIDE(p, c);
    PREFER(why, a.c >= 8, "fewer than 8 channels leave most of a block empty");
    PREFER(why, strided_worthwhile(p, &a, &c), "too few tiles or filters to pay for the transforms");
    return true;
}

static double effort_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct strided_cut c;
    DECIDED(p, c);
    return blocked_effort(&a, strided_cost(p, &a, &c));
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct strided_cut c;
    DECIDED(p, c);
    return conv_packing_workspace(p, &a, winograd_raw_packing(p, c.tile.kv));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct strided_cut c;
    DECIDED(p, c);
    struct conv_winograd_args args = winograd_args_of(p, &a, STRIDED_SIDE, c.tile.t, c.tile.kv);
    args.t_step = (i32)ceil_div(c.tile_blocks, c.ranges) * c.tile.t;
    const int packed = emit_conv_packed(e, p, &a, winograd_raw_packing(p, c.tile.kv));
    struct step *s = emit_strided(e, p, &a, "conv_winograd_strided", &c);
    step_define(s, "KER", a.ker[1]);
    blocked_conv_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_winograd_strided = {
    .name = "winograd_strided",
    .doc = "minimal filtering of 3x3 and 4x4 filters at stride 2, tiles of 4x4, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = WINOGRAD_STRIDED_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
