/* conv_wgmma_scaled: windows at strides up to 2, or of one pixel, as products of scaled halves on Hopper's tensor cores, both operands in local
 * memory; see kernels/conv_nvidia/conv_wgmma_scaled.cl. */
#include <math.h>

#include "algos/conv_nvidia/conv_wgmma_scaled.h"
#include "algos/conv_nvidia/scaled_filters.h"
#include "algos/conv_nvidia/scaled_window.h"
#include "algos/cost/cost.h"
#include "conv_nvidia/conv_nvidia_args.h"

enum {
    GROUP = 512,
    LARGE_GROUP = 640,
    SPAN_UNIT = 128,
    MAX_SPAN = 1024,
    MAX_POSITIONS = 1 << 30,
    MAX_VALUES = 1 << 30, /* whose bytes 32 bits count */
    LEAST_IMAGE = 32,     /* positions, so that a warp's lie in two images at most */
    LEAST_STAGES = 3,     /* of filters in local memory */
    MOST_TAPS = 7,        /* of a row or a column of a window, */
    MOST_STRIDE = 2,      /* and how far apart windows are */
    MOST_PARTS = 16,      /* of a depth, */
    LEAST_PART = 2,       /* and chunks of each of them */
    MOST_SUMS = 64 * 256, /* of a tile that may have parts */
};

/* What a group computes, and in ns, measured on an H200, what that costs a multiprocessor: with windows of one pixel `tile` for each
 * tile and `chunk` for 16 channels of it; with others `window` for each tile, `tap` for 16 channels of a tap and `position` for those of a
 * position in local memory; `added` for each tile if something is added that comes as pixels do. */
struct tile {
    short filters, positions;
    float tile, chunk, window, tap, position, added;
};
static const struct tile tiles[] = {
    {128, 256, 7000.0f, 520.0f, 14700.0f, 131.0f, 1.28f, 7500.0f},
    {64, 512, 7000.0f, 1000.0f, 6900.0f, 150.0f, 2.9f, 7500.0f},
    {256, 128, 6900.0f, 355.0f, 14800.0f, 125.0f, 1.25f, 4700.0f},
    {128, 128, 3200.0f, 305.0f, 3850.0f, 102.0f, 1.35f, 1650.0f},
    {64, 64, 0.0f, 0.0f, 2500.0f, 68.0f, 1.6f, 800.0f}, /* windows of more than one pixel */
    {64, 128, 0.0f, 0.0f, 3500.0f, 37.0f, 2.6f, 1200.0f},
    {64, 256, 0.0f, 0.0f, 5200.0f, 79.0f, 3.1f, 2500.0f},
    {224, 192, 9000.0f, 530.0f, 0.0f, 0.0f, 0.0f, 0.0f}}; /* single pixels, where little follows a sum */

struct choice {
    const struct tile *tile;
    int span;
    int split, share;  /* groups that share a depth, and chunks of each */
    size_t each, all;  /* tiles of positions, and of all in each part of the depth */
    float time, added; /* all of it, and what something added takes of it */
};

/* Planes of all volumes, each of which is an image. */
static int64_t images_of(const struct conv_args *a)
{
    return (int64_t)a->n * a->out[0];
}

/* Positions of an image with its zeros. */
static int64_t image_of(const struct conv_args *a)
{
    return (int64_t)scaled_side(a, 1).line * scaled_side(a, 2).line;
}

/* Positions before and behind a tile that its windows see. */
static int ahead_of(const struct conv_args *a)
{
    const struct scaled_side right = scaled_side(a, 2);
    return (int)round_up((size_t)(scaled_side(a, 1).begin * right.line + right.begin),
                         (size_t)scaled_together(a));
}

static int behind_of(const struct conv_args *a)
{
    const struct scaled_side right = scaled_side(a, 2);
    return scaled_side(a, 1).end * right.line + right.end;
}

static int span_of(const struct conv_args *a, const struct tile *t)
{
    return scaled_taps(a) == 1
               ? t->positions
               : (int)round_up((size_t)(t->positions + ahead_of(a) + behind_of(a)), SPAN_UNIT);
}

static bool fits(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    const int high = scaled_side(a, 1).taps, wide = scaled_side(a, 2).taps, span = span_of(a, t);
    const bool single = high * wide == 1, short_ends = single && !p->add.present && !mma_slow_activation(p);
    const bool meant = single ? t->tile > 0.0f && (t->window > 0.0f || short_ends) : t->window > 0.0f;
    return meant && span <= MAX_SPAN &&
           SCALED_FILTER_STAGES(high, wide, t->filters, t->positions, span) >= LEAST_STAGES &&
           (single || (image_of(a) >= LEAST_IMAGE && span / image_of(a) + 2 <= SCALED_SCALES));
}

/* Whether what is added comes through the stages of pixels, in fours; in single values it would come too slowly. */
static bool adds_come_as_pixels(const struct conv_args *a)
{
    return scaled_taps(a) == 1 && a->out[1] * a->out[2] % 4 == 0;
}

/* Whether neighbouring pixels of x lie in fours, or the channels of single pixels do. */
static bool loads_fours(const struct conv_args *a)
{
    const int map = a->in[1] * a->in[2];
    const int64_t apart = map > 1 ? map : a->groups > 1 ? a->c / a->groups : a->src_n;
    return a->stride[1] * a->stride[2] == 1 && apart % 4 == 0;
}

/* Work-items: tiles of few results leave registers for twice as many that make halves. */
static size_t group_of(const struct conv_args *a, const struct tile *t)
{
    return scaled_taps(a) > 1 && t->filters == 64 && t->positions <= 256 ? LARGE_GROUP : GROUP;
}

/* 16 channels of a plane for windows: their products and halves, unless copying the pixels takes longer, or what cannot be done at
 * the same time. */
static float chunk_of(const struct conv_args *a, const struct tile *t)
{
    static const float copies[] = {[1] = WGMMA_SCALED_COPY_ONES_NS,
                                   [2] = WGMMA_SCALED_COPY_TWOS_NS,
                                   [SCALED_MOST_TOGETHER] = WGMMA_SCALED_COPY_FOURS_NS};
    const float products = (float)scaled_taps(a) * t->tap + t->position * (float)span_of(a, t);
    const float copied = copies[scaled_together(a)] * (a->stride[2] > 1 ? WGMMA_SCALED_APART_RATIO : 1.0f) *
                         (float)(t->positions + ahead_of(a) + behind_of(a));
    const float least = WGMMA_SCALED_CHUNK_NS * (group_of(a, t) > GROUP ? WGMMA_SCALED_MAKERS_RATIO : 1.0f);
    return fmaxf(products, fmaxf(copied, least));
}

static int results_of(const struct tile *t)
{
    return t->filters * t->positions;
}

/* Single pixels of maps wait for the activation, and windows where the warps of a tile that have no filters wait for the others. */
static float act_time(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    const bool waits = scaled_taps(a) == 1 ? image_of(a) > 1 : a->k / a->groups < t->filters;
    return waits ? mma_act_time(p, results_of(t)) : 0.0f;
}

/* Parts that groups which share a depth leave. */
static size_t parts_bytes(const struct choice *c)
{
    return c->split > 1 ? sizeof(float) * (size_t)results_of(c->tile) * c->all * (size_t)c->split : 0;
}

/* What this tile would do by `split` groups, and in what time. */
static struct choice with_tile(const struct problem *p, const struct conv_args *a, const struct tile *t,
                               int split)
{
    const size_t each = ceil_div((size_t)(images_of(a) * image_of(a)), (size_t)t->positions);
    const size_t all = each * (size_t)conv_blocks(a, t->filters);
    const float waves = (float)ceil_div(all * (size_t)split, p->device->compute_units);
    const int taps = scaled_taps(a), share = (int)ceil_div((size_t)scaled_chunks(a), (size_t)split);
    const float ones = loads_fours(a) ? 0.0f : WGMMA_SCALED_ONES_NS * (float)t->positions;
    const float chunk = taps == 1 ? t->chunk + ones : chunk_of(a, t);
    const float sums = (taps == 1 ? t->tile : t->window) + act_time(p, a, t) +
                       (float)(share * SCALED_CHANNELS(taps) / 16) * chunk;
    const bool early = !p->times && adds_come_as_pixels(a);
    const float added = t->added * (p->add.present ? early ? 1.0f : WGMMA_SCALED_LATE_RATIO : 0.0f);
    const float join =
        split > 1 ? MMA_FIXUP_NS + 4.0f * (float)(results_of(t) * split) / MMA_FIXUP_BYTES_PER_NS : 0.0f;
    struct choice c = {t,
                       span_of(a, t),
                       split,
                       share,
                       each,
                       all,
                       MMA_START_NS + waves * (sums + added) + join,
                       waves * added};
    c.time += mma_memory_price(p, parts_bytes(&c), 0);
    return c;
}

/* Groups that may share a depth: where tiles are too few for all multiprocessors, and of windows. */
static int most_parts(const struct conv_args *a, const struct tile *t)
{
    const int chunks = scaled_chunks(a) / LEAST_PART, most = chunks < MOST_PARTS ? chunks : MOST_PARTS;
    return scaled_taps(a) > 1 && results_of(t) <= MOST_SUMS && most > 1 ? most : 1;
}

/* Filters that are no constants, packed. */
static size_t packing_bytes(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    return p->in[1].constant ? 0
                             : filter_halves_bytes(a, t->filters, false) + filter_sizes_bytes(a) +
                                   channel_sizes_bytes(a, t->filters);
}

/* Whether a depth may have these parts: none is empty, and there is memory for them. */
static bool may_part(const struct problem *p, const struct conv_args *a, const struct choice *c)
{
    return c->split == 1 || ((c->split - 1) * c->share < scaled_chunks(a) &&
                             packing_bytes(p, a, c->tile) + parts_bytes(c) <= p->workspace_limit);
}

/* No tile where none fits. */
static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {.tile = NULL};
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const int most = fits(p, a, &tiles[i]) ? most_parts(a, &tiles[i]) : 0;
        for (int split = 1; split <= most; split++) {
            const struct choice c = with_tile(p, a, &tiles[i], split);
            if (may_part(p, a, &c) && (best.tile == NULL || c.time < best.time))
                best = c;
        }
    }
    return best;
}

static bool takes(const struct conv_args *a, const struct choice *c)
{
    return c->tile != NULL && images_of(a) * image_of(a) <= MAX_POSITIONS && a->n * a->src_n < MAX_VALUES &&
           a->n * a->add_n < MAX_VALUES;
}

/* Several taps that begin within the map, up to strides of 2 without dilation. */
static bool side_fits(const struct conv_args *a, int d)
{
    const int stride = a->stride[d];
    return stride <= MOST_STRIDE && a->ker[d] >= stride && (stride == 1 || a->dil[d] == 1) &&
           a->pad[d] <= (a->ker[d] - 1) * a->dil[d] && scaled_side(a, d).taps <= MOST_TAPS;
}

/* Single pixels, or windows; planes of those at stride 1 behind one another, as many as there are in the map. */
static bool window_fits(const struct conv_args *a)
{
    const int planes = a->ker[0];
    const bool flat = !conv_is_volume(a);
    if (conv_taps(a) == 1)
        return flat && a->pad[1] + a->pad[2] == 0;
    return side_fits(a, 1) && side_fits(a, 2) && scaled_taps(a) > 1 &&
           (flat || (a->stride[0] == 1 && a->dil[0] == 1 && planes % 2 == 1 && a->pad[0] == planes / 2 &&
                     a->out[0] == a->in[0] && !scaled_is_strided(a)));
}

/* Windows of one pixel have too little to multiply for blocks that are half empty. */
static bool fills_blocks(const struct conv_args *a)
{
    return scaled_taps(a) > 1 || a->k / a->groups >= WGMMA_SCALED_LEAST_FILTERS;
}

float scaled_expected(const struct problem *p, const struct conv_args *a)
{
    if (!window_fits(a) || !fills_blocks(a))
        return INFINITY;
    const struct choice c = choose(p, a);
    return takes(a, &c) ? c.time : INFINITY;
}

bool scaled_may(const struct problem *p, const struct conv_args *a, struct why *why)
{
    const struct choice c = choose(p, a);
    REQUIRE(why, takes(a, &c), "rows are too long, images too small or maps too large for the kernel");
    DECIDE(p, c);
    PREFER(why, mma_cheapest(p) == MMA_TF32, "one product of as many bits as tf32's is for precision high");
    PREFER(why, fills_blocks(a), "up to 32 filters of one pixel leave half of a block empty");
    /* what is expected of those leaves out what is added */
    PREFER(why, c.time - c.added < mma_shortest(p, a, MMA_TF32),
           "the tiles of mma and wgmma are expected to be faster");
    return true;
}

static bool may(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, window_fits(&a),
            "single pixels without padding, or windows of up to 7 taps a side at strides up to 2 are needed");
    return scaled_may(p, &a, why);
}

size_t scaled_workspace(const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    return packing_bytes(p, a, c.tile) + parts_bytes(&c);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return scaled_workspace(p, &a);
}

struct step *emit_scaled(struct emit *e, const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    const size_t most = p->device->compute_units, all = c.all * (size_t)c.split;
    const bool split = c.split > 1;
    const struct scaled_side down = scaled_side(a, 1), right = scaled_side(a, 2);
    const struct conv_scaled_args args = {
        .conv = *a,
        .tiles = (int64_t)all,
        .at_once = (int32_t)(all < most ? all : most),
        .tiles_each = (int32_t)c.each,
        .positions = (int32_t)(images_of(a) * image_of(a)),
        .chunks = scaled_chunks(a),
        .line = {down.line, right.line},
        .ahead = ahead_of(a),
        .behind = behind_of(a),
        .split_k = c.split,
        .share = c.share,
    };
    const int packed = emit_filter_halves(e, p, a, c.tile->filters, GAINS_OF_BLOCK, false);
    const int partial = split ? emit_workspace(e, parts_bytes(&c)) : VIEW_NONE;
    struct step *s = emit_step(e, "conv_wgmma_scaled", "main", (size_t)args.at_once, group_of(a, c.tile));
    step_define(s, "HIGH", down.taps);
    step_define(s, "WIDE", right.taps);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->positions);
    step_define(s, "SPAN", c.span);
    if (epilogue_add(p) == 1 && adds_come_as_pixels(a))
        step_define(s, "ADD_STAGES", 1);
    if (scaled_taps(a) == 1 && a->in[1] * a->in[2] == 1)
        step_define(s, "DEEP", 1);
    if (scaled_together(a) < SCALED_MOST_TOGETHER)
        step_define(s, "TOGETHER", scaled_together(a));
    if (scaled_is_strided(a))
        step_define(s, "STRIDED", 1);
    if (conv_is_volume(a))
        step_define(s, "VOLUME", 1);
    if (scaled_channels(a) > a->c / a->groups)
        step_define(s, "RAGGED", 1);
    if (split)
        step_define(s, "SPLIT", 1);
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    step_write(s, partial);
    step_update(s, split ? emit_counters(e, c.all) : VIEW_NONE);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, &args, sizeof args);
    return s;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    conv_cost(emit_scaled(e, p, &a), p);
}

const struct algo_def algo_conv_wgmma_scaled = {
    .name = "wgmma_scaled",
    .doc =
        "implicit GEMM of windows at strides up to 2, planes of them behind one another, or of one pixel, on "
        "Hopper's tensor cores, operands rounded to scaled halves",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may,
    .workspace = workspace,
    .emit = emit,
};
