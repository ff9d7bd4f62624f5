/* conv_wgmma_local: single pixels at stride 1, and rows, as products of tf32 on Hopper's tensor cores, both operands in local
 * memory; see kernels/conv_nvidia/conv_wgmma_local.cl. */
#include "algos/conv_nvidia/conv_wgmma_local.h"
#include "algos/conv_nvidia/conv_wgmma_scaled.h"
#include "algos/cost/cost.h"
#include "conv_nvidia/conv_nvidia_args.h"

enum {
    MAX_SPLIT = 16, /* groups that share a depth */
    LEAST_PART = 2, /* chunks of each of them: fewer are all start-up */
};

/* `loaders`: warps that load; of maps, groups with four of them are faster in pairs than with eight by themselves. */
enum layout { ANY, ROWS, MAPS };
struct tile {
    short filters, positions, loaders;
    enum layout of;
};
static const struct tile tiles[] = {{64, 64, 8, ROWS},  {128, 64, 8, ROWS}, {64, 64, 4, MAPS},
                                    {128, 64, 4, MAPS}, {64, 128, 8, ANY},  {128, 128, 8, ANY}};

struct choice {
    const struct tile *tile;
    int split, share; /* groups that share a depth, and chunks of each */
    int image;        /* tiles of an image */
    size_t each;      /* tiles of positions */
    size_t of_depth;  /* tiles of one share of the depth */
    float time;
};

static int padded_of(const struct conv_args *a)
{
    return (int)round_up((size_t)(a->c / a->groups), LOCAL_PAIR_CHANNELS);
}

bool local_is_deep(const struct conv_args *a)
{
    return a->out[1] * a->out[2] == 1;
}

static size_t filters_bytes(const struct conv_args *a, const struct tile *t)
{
    return sizeof(float) * (size_t)conv_blocks(a, t->filters) * (size_t)t->filters * (size_t)padded_of(a);
}

static size_t parts_bytes(const struct choice *c)
{
    return c->split == 1 ? 0
                         : sizeof(float) * (size_t)(c->tile->filters * c->tile->positions) * c->of_depth *
                               (size_t)c->split;
}

static struct choice with_tile(const struct conv_args *a, const struct tile *t)
{
    struct choice c = {.tile = t};
    const size_t map = (size_t)(a->out[1] * a->out[2]);
    c.image = local_is_deep(a) ? 1 : (int)ceil_div(map, (size_t)t->positions);
    c.each = local_is_deep(a) ? ceil_div((size_t)a->n, (size_t)t->positions) : (size_t)a->n * (size_t)c.image;
    c.of_depth = c.each * (size_t)conv_blocks(a, t->filters);
    return c;
}

/* Expected time in ns. Where two groups share a multiprocessor the second one takes a part of its time beside the first. */
static float time_of(const struct problem *p, const struct choice *c)
{
    const struct tile *t = c->tile;
    const size_t each = ceil_div(c->of_depth * (size_t)c->split, p->device->compute_units);
    const bool pairs = LOCAL_PAIR_RESIDENT(t->loaders) == 2;
    const float results = (float)(t->filters * t->positions);
    const float chunk =
        (pairs ? 1.0f : LOCAL_PAIR_LOADERS_RATIO) *
        (LOCAL_PAIR_SIDE_NS * (float)(t->filters + t->positions) + LOCAL_PAIR_PRODUCTS_NS * results);
    const float one = (float)c->share * chunk + LOCAL_PAIR_TILE_NS + LOCAL_PAIR_RESULT_NS * results;
    const float rounds =
        pairs ? (float)(each / 2) * (1.0f + LOCAL_PAIR_BESIDE_RATIO) + (float)(each % 2) : (float)each;
    const float join =
        c->split == 1 ? 0.0f : LOCAL_PAIR_JOIN_NS + 4.0f * results * (float)c->split / MMA_FIXUP_BYTES_PER_NS;
    return LOCAL_PAIR_START_NS + rounds * one + join + mma_memory_price(p, parts_bytes(c), 0);
}

static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {.tile = NULL};
    const int chunks = padded_of(a) / LOCAL_PAIR_CHANNELS;
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        struct choice c = with_tile(a, &tiles[i]);
        if (tiles[i].of == (local_is_deep(a) ? MAPS : ROWS))
            continue;
        for (c.split = 1; c.split <= MAX_SPLIT; c.split++) {
            c.share = (int)ceil_div((size_t)chunks, (size_t)c.split);
            if (c.split > 1 && (c.share < LEAST_PART || parts_bytes(&c) > p->workspace_limit))
                break;
            if ((c.split - 1) * c.share >= chunks)
                continue; /* the last share would be empty */
            c.time = time_of(p, &c);
            if (best.tile == NULL || c.time < best.time)
                best = c;
        }
    }
    return best;
}

/* What wgmma_scaled is expected to take, as it was measured beside this kernel. */
static float scaled_time(const struct problem *p, const struct conv_args *a)
{
    const bool more = p->add.present || p->act != ACT_none;
    return scaled_expected(p, a) * (!local_is_deep(a) ? LOCAL_PAIR_MAPS_RATIO
                                    : more            ? LOCAL_PAIR_ROWS_RATIO
                                                      : 1.0f);
}

/* Results that a multiprocessor finishes. */
static float results_of(const struct problem *p, const struct choice *c)
{
    const size_t each = ceil_div(c->of_depth * (size_t)c->split, p->device->compute_units);
    return (float)each * (float)(c->tile->filters * c->tile->positions);
}

static float act_time(const struct problem *p, const struct conv_args *a, const struct choice *c)
{
    const float each = !local_is_deep(a)        ? (mma_slow_activation(p) ? LOCAL_PAIR_MAPS_ACT_NS : 0.0f)
                       : mma_long_activation(p) ? LOCAL_PAIR_ACT_NS
                                                : 0.0f;
    return results_of(p, c) * each;
}

float local_expected(const struct problem *p, const struct conv_args *a)
{
    const struct choice c = choose(p, a);
    const float added = p->add.present ? results_of(p, &c) * LOCAL_PAIR_ADDED_NS : 0.0f;
    const float local = c.time + added + act_time(p, a, &c), scaled = scaled_time(p, a);
    return local < scaled ? local : scaled;
}

bool local_may(const struct problem *p, const struct conv_args *a, struct why *why)
{
    const struct choice c = choose(p, a);
    const float mma = mma_shortest(p, a, MMA_TF32);
    const float added = !local_is_deep(a) && p->add.present ? results_of(p, &c) * LOCAL_PAIR_ADDED_NS : 0.0f;
    const float scaled = scaled_time(p, a) - added; /* which counts what is added to maps */
    DECIDE(p, c);
    PREFER(why, mma_cheapest(p) == MMA_TF32, "one product of as many bits as tf32's is for precision high");
    PREFER(why, a->n * conv_map(a) > 4, "four rows or fewer: dot products read the weights as fast");
    const float acted = local_is_deep(a) ? 0.0f : act_time(p, a, &c);
    PREFER(why, c.time + acted + (p->chained ? CHAIN_PARTED_NS : 0.0f) < (mma < scaled ? mma : scaled),
           "the tiles of mma and wgmma are expected to be faster");
    return true;
}

bool local_takes(const struct problem *p, const struct conv_args *a, struct why *why)
{
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to mma, wgmma");
    REQUIRE(why, conv_is_pointwise(a), "windows of one pixel at stride 1 are needed");
    return true;
}

static bool may(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    return local_takes(p, &a, why) && local_may(p, &a, why);
}

size_t local_workspace(const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    return (p->in[1].constant ? 0 : filters_bytes(a, c.tile)) + parts_bytes(&c);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return local_workspace(p, &a);
}

struct step *emit_local(struct emit *e, const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    const size_t all = c.of_depth * (size_t)c.split,
                 most = (size_t)p->device->compute_units * LOCAL_PAIR_RESIDENT(c.tile->loaders);
    const struct conv_local_args args = {
        .mma = {.conv = *a,
                .padded = padded_of(a),
                .depth = padded_of(a),
                .share = c.share,
                .tiles = (int64_t)all,
                .at_once = (int32_t)(all < most ? all : most),
                .split_k = c.split,
                .each = (int32_t)c.of_depth},
        .tiles_each = (int32_t)c.each,
        .tiles_image = c.image,
    };
    const bool split = c.split > 1;
    const int packed = emit_hopper_filters(e, p, a, padded_of(a), c.tile->filters);
    const int partial = split ? emit_workspace(e, parts_bytes(&c)) : VIEW_NONE;
    struct step *s = emit_step(e, "conv_wgmma_local", "main", (size_t)args.mma.at_once,
                               2 * (size_t)c.tile->positions + 32 * (size_t)c.tile->loaders);
    s->alone = true;
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->positions);
    step_define(s, "LOADERS", c.tile->loaders);
    step_define(s, "DEEP", local_is_deep(a));
    step_define(s, "SPLIT", split ? 2 : 0);
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    step_write(s, partial);
    step_update(s, split ? emit_counters(e, c.of_depth) : VIEW_NONE);
    emit_conv_split_k(e, s, p, a, 1, p->out[0].view, &args, sizeof args);
    return s;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    conv_cost(emit_local(e, p, &a), p);
}

const struct algo_def algo_conv_wgmma_local = {
    .name = "wgmma_local",
    .doc = "GEMM of single pixels on Hopper's tensor cores, operands rounded to tf32 in local memory",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may,
    .workspace = workspace,
    .emit = emit,
};
