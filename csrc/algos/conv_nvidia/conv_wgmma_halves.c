/* conv_wgmma_halves: single pixels at stride 1, and rows, as products of scaled halves on Hopper's tensor cores, which a step of
 * its own makes of the map; see kernels/conv_nvidia/conv_wgmma_halves.cl and conv_halves.cl. */
#include "algos/conv_nvidia/conv_wgmma_halves.h"
#include "algos/conv_nvidia/conv_wgmma_local.h"
#include "algos/conv_nvidia/conv_wgmma_scaled.h"
#include "algos/cost/cost.h"
#include "conv_nvidia/conv_nvidia_args.h"

enum {
    GROUP = 384,
    MAKERS = 512,         /* work-items of a group that makes halves, at most */
    MAX_VALUES = 1 << 30, /* whose offsets 32 bits count */
    MOST_KEPT = 12,       /* octets of channels in registers */
    ROWS_TOGETHER = 8,    /* of a group that makes halves */
    PIXELS_TOGETHER = 32,
    WIDE_TILE = 384, /* filters and positions, from which on stages have half of the depth */
};

/* What a group computes; in ns, measured on an H200, what 16 channels of a tile cost a multiprocessor, a tile beside them, what is
 * added to one, and an activation of many instructions, whose code for more than 128 results of a work-item the cache of instructions
 * does not hold: 0. */
struct tile {
    short filters, positions;
    float chunk, tile, added, activated;
};
static const struct tile tiles[] = {
    {128, 128, 150.0f, 3000.0f, 2700.0f, 600.0f},
    {128, 256, 210.0f, 6700.0f, 4650.0f, 2200.0f},
    {192, 256, 270.0f, 9600.0f, 13700.0f, 0.0f},
};

struct choice {
    const struct tile *tile;
    size_t each, all; /* tiles of positions, and of all */
    float time;
};

static size_t positions_of(const struct conv_args *a)
{
    return (size_t)a->n * (size_t)conv_map(a);
}

static size_t halves_bytes(const struct conv_args *a, const struct choice *c)
{
    return sizeof(uint16_t) * c->each * (size_t)c->tile->positions * (size_t)a->c;
}

static size_t back_bytes(const struct choice *c)
{
    return sizeof(float) * c->each * (size_t)c->tile->positions;
}

/* Positions of a group that makes halves, and octets of channels that the largest such group holds at once. */
static int together(const struct conv_args *a)
{
    return local_is_deep(a) ? ROWS_TOGETHER : PIXELS_TOGETHER;
}

static int most_octets(const struct conv_args *a)
{
    return MOST_KEPT * MAKERS / together(a);
}

static struct choice with_tile(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    struct choice c = {.tile = t};
    c.each = ceil_div(positions_of(a), (size_t)t->positions);
    c.all = c.each * (size_t)conv_blocks(a, t->filters);
    const float waves = (float)ceil_div(c.all, p->device->compute_units);
    const float full = (float)c.all / (float)p->device->compute_units;
    const float chunk =
        t->chunk * (full < 1.0f ? 0.5f + 0.5f * full : 1.0f); /* copies of few share the L2 cache */
    const float one = (float)(a->c / 16) * chunk + t->tile + (p->add.present ? t->added : 0.0f) +
                      (mma_long_activation(p) ? t->activated : 0.0f);
    const float passes = a->c / 8 > most_octets(a) ? 2.0f : 1.0f;
    const float bytes = (float)positions_of(a) * (float)a->c * (passes * sizeof(float) + sizeof(uint16_t));
    /* filters that are packed in every run: each block of them looks at all */
    const float packing = p->in[1].constant
                              ? 0.0f
                              : (float)conv_blocks(a, t->filters) * (float)a->k * (float)a->c * sizeof(float);
    c.time = HALVES_START_NS + (bytes + packing) / HALVES_BYTES_PER_NS + waves * one +
             mma_memory_price(p, halves_bytes(a, &c), 0) / HALVES_PRICE_RATIO;
    return c;
}

static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {.tile = NULL};
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        if (mma_long_activation(p) && tiles[i].activated == 0.0f)
            continue;
        const struct choice c = with_tile(p, a, &tiles[i]);
        if (best.tile == NULL || c.time < best.time)
            best = c;
    }
    return best;
}

bool halves_may(const struct problem *p, const struct conv_args *a, struct why *why)
{
    REQUIRE(why,
            a->groups == 1 && a->c % SCALED_CHANNELS(1) == 0 && a->n * a->dst_n < MAX_VALUES &&
                a->n * a->add_n < MAX_VALUES,
            "one group of channels, a multiple of 32, and maps of fewer than 2^30 values are needed");
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
    return halves_bytes(a, &c) + back_bytes(&c) +
           (p->in[1].constant ? 0 : filter_halves_bytes(a, c.tile->filters) + filter_sizes_bytes(a));
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
    const int octets = a->c / 8, positions = together(a);
    int group = MAKERS / 4;
    while (group < MAKERS && octets > MOST_KEPT * group / positions)
        group *= 2;
    const int kept = (int)ceil_div((size_t)octets, (size_t)(group / positions));
    struct step *s = emit_step(e, "conv_halves", "main", ceil_div((size_t)args->positions, (size_t)positions),
                               (size_t)group);
    step_define(s, "DEEP", local_is_deep(a));
    step_define(s, "BM", t->filters);
    step_define(s, "BN", t->positions);
    step_define(s, "KEPT", kept < MOST_KEPT ? kept : MOST_KEPT);
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
    const int depth = a->c % 64 == 0 && c.tile->filters + c.tile->positions <= WIDE_TILE ? 64 : 32;
    const size_t most = p->device->compute_units;
    const struct conv_halves_args args = {
        .conv = *a,
        .tiles = (int64_t)c.all,
        .at_once = (int32_t)(c.all < most ? c.all : most),
        .chunks = a->c / depth,
        .positions = (int32_t)positions_of(a),
    };
    const int packed = emit_filter_halves(e, p, a, c.tile->filters, true);
    const int halves = emit_workspace(e, halves_bytes(a, &c)), back = emit_workspace(e, back_bytes(&c));
    emit_halves_of(e, p, &args, c.tile, packed, halves, back);
    struct step *s = emit_step(e, "conv_wgmma_halves", "main", (size_t)args.at_once, GROUP);
    step_define(s, "DEEP", local_is_deep(a));
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->positions);
    step_define(s, "DEPTH", depth);
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
    .doc = "GEMM of single pixels on Hopper's tensor cores, of scaled halves that the map becomes first",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may,
    .workspace = workspace,
    .emit = emit,
};
