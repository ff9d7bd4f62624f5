/* conv_wgmma_halves: single pixels at stride 1, and rows, as products of scaled halves on Hopper's tensor cores, which a step of
 * its own makes of the map, or the layer before has; see kernels/conv_nvidia/conv_wgmma_halves.cl and conv_halves.cl. */
#include <math.h>

#include "algos/conv_nvidia/conv_wgmma_halves.h"
#include "algos/common/octets.h"
#include "algos/conv_nvidia/conv_wgmma_local.h"
#include "algos/conv_nvidia/scaled_filters.h"
#include "algos/conv_nvidia/scaled_window.h"
#include "algos/cost/cost.h"
#include "conv_nvidia/conv_nvidia_args.h"

enum {
    MAX_VALUES = 1 << 30, /* whose offsets 32 bits count */
    MOST_KEPT = 12,       /* octets of channels in registers, of a group that makes halves */
    WIDE_TILE = 384,      /* filters and positions, from which on stages have half of the depth */
    SMALL = 64,           /* positions of tiles that one warpgroup computes, */
    GROUP = 384,          /* and work-items of a group, otherwise and then */
    SMALL_GROUP = 160,
    OCTET = 8, /* channels that become halves together */
};

/* What a group computes; in ns, measured on an H200, what 16 channels of a tile cost a multiprocessor, a tile beside them, what is
 * added to one, and an activation of many instructions, whose code for more than 128 results of a work-item the cache of instructions
 * does not hold: 0. Tiles of 64 positions are for maps that are halves already. */
struct tile {
    short filters, positions;
    float chunk, tile, added, activated;
};
static const struct tile tiles[] = {
    {32, 64, 36.0f, 2200.0f, 300.0f, 600.0f},      {64, 64, 78.0f, 2300.0f, 400.0f, 1000.0f},
    {128, 64, 150.0f, 2200.0f, 800.0f, 2800.0f},   {128, 128, 150.0f, 3000.0f, 2700.0f, 600.0f},
    {128, 256, 210.0f, 6700.0f, 4650.0f, 2200.0f}, {192, 256, 270.0f, 9600.0f, 13700.0f, 0.0f},
};

/* The same of pairs of halves. */
static const struct tile pair_tiles[] = {
    {32, 64, 135.0f, 2200.0f, 300.0f, 600.0f},     {64, 64, 165.0f, 2300.0f, 400.0f, 1000.0f},
    {128, 64, 240.0f, 2200.0f, 1600.0f, 2800.0f},  {128, 128, 321.0f, 2700.0f, 2700.0f, 1200.0f},
    {192, 128, 405.0f, 4500.0f, 6000.0f, 2200.0f},
};

struct choice {
    const struct tile *tile;
    int depth;        /* channels of a chunk */
    size_t each, all; /* tiles of positions, and of all */
    float time;
};

static bool is_given(const struct problem *p)
{
    return p->in[0].cores != 0.0f;
}

static size_t positions_of(const struct conv_args *a)
{
    return (size_t)a->n * (size_t)conv_map(a);
}

static size_t halves_bytes(const struct problem *p, const struct conv_args *a, const struct choice *c)
{
    return is_given(p) ? 0
                       : sizeof(uint16_t) * c->each * (size_t)c->tile->positions * (size_t)scaled_channels(a);
}

static size_t back_bytes(const struct problem *p, const struct choice *c)
{
    return is_given(p) ? 0 : sizeof(float) * c->each * (size_t)c->tile->positions;
}

/* Rounds of groups, where a second group on a multiprocessor takes a part of its time beside the first. */
static float rounds_of(const struct problem *p, const struct choice *c)
{
    const size_t each = ceil_div(c->all, p->device->compute_units);
    if (c->tile->positions > SMALL)
        return (float)each;
    return (float)(each / 2) * (1.0f + HALVES_BESIDE_RATIO) + (float)(each % 2);
}

/* What it takes beside the tiles: making the halves, and filters that are packed in every run, each block of which looks at all. */
static float start_of(const struct problem *p, const struct conv_args *a, const struct choice *c)
{
    const float passes = a->c / OCTET > octets_most(local_is_deep(a), MOST_KEPT) ? 2.0f : 1.0f;
    const float map = (float)positions_of(a) * (float)a->c * (passes * sizeof(float) + sizeof(uint16_t));
    const float packing = p->in[1].constant ? 0.0f
                                            : (float)conv_blocks(a, c->tile->filters) * (float)a->k *
                                                  (float)a->c * sizeof(float);
    if (is_given(p))
        return HALVES_GIVEN_NS + packing / HALVES_BYTES_PER_NS;
    return HALVES_START_NS + (map + packing) / HALVES_BYTES_PER_NS +
           mma_memory_price(p, halves_bytes(p, a, c), 0) / HALVES_PRICE_RATIO;
}

static struct choice with_tile(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    struct choice c = {.tile = t};
    c.depth =
        scaled_channels(a) % 64 == 0 && t->filters + t->positions <= WIDE_TILE && !p->in[0].pairs ? 64 : 32;
    c.each = ceil_div(positions_of(a), (size_t)t->positions);
    c.all = c.each * (size_t)conv_blocks(a, t->filters);
    const float full = (float)c.all / (float)p->device->compute_units;
    const float chunk =
        t->chunk * (full < 1.0f ? 0.5f + 0.5f * full : 1.0f); /* copies of few share the L2 cache */
    const float one = (float)(scaled_channels(a) / 16) * chunk + t->tile +
                      (p->add.present ? t->added : 0.0f) + (mma_long_activation(p) ? t->activated : 0.0f);
    c.time = start_of(p, a, &c) + rounds_of(p, &c) * one;
    return c;
}

static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {.tile = NULL};
    const struct tile *of = p->in[0].pairs ? pair_tiles : tiles;
    const int count = p->in[0].pairs ? COUNT_OF(pair_tiles) : COUNT_OF(tiles);
    for (int i = 0; i < count; i++) {
        const bool small = of[i].positions <= SMALL;
        if ((mma_long_activation(p) && of[i].activated == 0.0f) || (small && !is_given(p)))
            continue;
        const struct choice c = with_tile(p, a, &of[i]);
        if (best.tile == NULL || c.time < best.time)
            best = c;
    }
    return best;
}

static bool fits(const struct problem *p, const struct conv_args *a, struct why *why)
{
    REQUIRE(why, a->groups == 1 && a->n * a->dst_n < MAX_VALUES && a->n * a->add_n < MAX_VALUES,
            "one group of channels and maps of fewer than 2^30 values are needed");
    REQUIRE(why, a->c % (is_given(p) ? SCALED_CHANNELS(1) : OCTET) == 0,
            "channels that are a multiple of 8, or of 32 of maps that are halves, are needed");
    return true;
}

float halves_expected(const struct problem *p, const struct conv_args *a)
{
    struct why why;
    return local_takes(p, a, &why) && fits(p, a, &why) ? choose(p, a).time : INFINITY;
}

bool pairs_may(const struct problem *p, const struct conv_args *a, struct why *why)
{
    if (!fits(p, a, why))
        return false;
    REQUIRE(why, p->in[0].pairs, "the map comes as float32, not as pairs of halves");
    const struct choice c = choose(p, a);
    const bool more = p->add.present || mma_long_activation(p);
    DECIDE(p, c);
    PREFER(why, c.time < mma_shortest(p, a, MMA_FLOAT32) * (more ? HALVES_MMA_RATIO : 1.0f),
           "the tiles of mma and wgmma are expected to be faster");
    return true;
}

bool halves_may(const struct problem *p, const struct conv_args *a, struct why *why)
{
    if (!fits(p, a, why))
        return false;
    const struct choice c = choose(p, a);
    const bool more = p->add.present || mma_long_activation(p); /* mma's expected time counts nothing of it */
    DECIDE(p, c);
    PREFER(why, mma_cheapest(p) == MMA_TF32, "one product of as many bits as tf32's is for precision high");
    PREFER(why,
           c.time < local_expected(p, a) &&
               c.time < mma_shortest(p, a, MMA_TF32) * (more ? HALVES_MMA_RATIO : 1.0f),
           "tiles that make halves on the way are expected to be faster");
    return true;
}

static bool may(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    return local_takes(p, &a, why) && halves_may(p, &a, why);
}

size_t halves_workspace(const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    return halves_bytes(p, a, &c) + back_bytes(p, &c) +
           (p->in[1].constant ? 0
                              : filter_halves_bytes(a, c.tile->filters, p->in[0].pairs) +
                                    filter_sizes_bytes(a) + channel_sizes_bytes(a, c.tile->filters));
}

static bool may_pairs(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    return local_takes(p, &a, why) && pairs_may(p, &a, why);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return halves_workspace(p, &a);
}

/* The step that makes halves of the map. */
static void emit_halves_of(struct emit *e, const struct problem *p, const struct conv_halves_args *args,
                           const struct tile *t, int packed, int halves, int back)
{
    const struct conv_args *a = &args->conv;
    struct step *s = emit_octets(e, "conv_halves", (size_t)args->positions, local_is_deep(a),
                                 args->padded / OCTET, MOST_KEPT);
    step_define(s, "BM", t->filters);
    step_read(s, p->in[0].view);
    step_read(s, packed);
    step_write(s, halves);
    step_write(s, back);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0, 6.0 * (double)args->positions * a->c);
}

struct step *emit_halves(struct emit *e, const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    const size_t most = (size_t)p->device->compute_units * HALVES_RESIDENT(c.tile->positions);
    const bool given = is_given(p), cores = p->out[0].cores != 0.0f;
    const struct conv_halves_args args = {
        .conv = *a,
        .tiles = (int64_t)c.all,
        .at_once = (int32_t)(c.all < most ? c.all : most),
        .chunks = scaled_channels(a) / c.depth,
        .positions = (int32_t)positions_of(a),
        .back = given ? 1.0f / p->in[0].cores : 1.0f,
        .up = cores ? p->out[0].cores : 1.0f,
        .padded = scaled_channels(a),
    };
    const int packed =
        emit_filter_halves(e, p, a, c.tile->filters, given ? GAINS_NONE : GAINS_OF_ALL, p->in[0].pairs);
    const int halves = given ? p->in[0].view : emit_workspace(e, halves_bytes(p, a, &c)),
              back = given ? VIEW_NONE : emit_workspace(e, back_bytes(p, &c));
    if (!given)
        emit_halves_of(e, p, &args, c.tile, packed, halves, back);
    struct step *s = emit_step(e, "conv_wgmma_halves", "main", (size_t)args.at_once,
                               c.tile->positions > SMALL ? GROUP : SMALL_GROUP);
    s->alone = true;
    step_define(s, "DEEP", local_is_deep(a));
    step_define(s, "GIVEN", given);
    step_define(s, "CORES", cores);
    step_define(s, "PAIRS", p->in[0].pairs);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->positions);
    step_define(s, "DEPTH", c.depth);
    step_read(s, halves);
    step_read(s, back);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    return s;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    conv_cost(emit_halves(e, p, &a), p);
}

const struct algo_def algo_conv_wgmma_halves = {
    .name = "wgmma_halves",
    .doc =
        "GEMM of single pixels on Hopper's tensor cores, of scaled halves that the map is, or becomes first",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .cores = CORES_SRC | CORES_DST,
    .deterministic = true,
    .applicable = may,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_wgmma_pairs = {
    .name = "wgmma_pairs",
    .doc = "GEMM of single pixels on Hopper's tensor cores, of pairs of scaled halves that the map is",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGHEST,
    .cores = CORES_SRC | CORES_DST | CORES_PAIRS,
    .deterministic = true,
    .applicable = may_pairs,
    .workspace = workspace,
    .emit = emit,
};
