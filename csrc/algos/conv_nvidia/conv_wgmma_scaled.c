/* conv_wgmma_scaled: windows at strides up to 2, or of one pixel, as products of scaled halves on Hopper's tensor cores, both operands in local
 * memory; see kernels/conv_nvidia/conv_wgmma_scaled.cl. */
#include <math.h>
#include <stdio.h>

#include "algos/conv_nvidia/conv_wgmma_scaled.h"
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
    MOST_TOGETHER = 4,    /* pixels in a copy */
    MOST_TAPS = 7,        /* of a row or a column of a window, */
    MOST_STRIDE = 2,      /* and how far apart windows are */
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
    size_t each, all;  /* tiles of positions, and of all */
    float time, added; /* all of it, and what something added takes of it */
};

/* A dimension of the windows, of which strided ones have several phases: taps of the largest one, where it begins before an output's
 * pixel and ends behind it, and the length of a line that has zeros enough. */
struct side {
    int taps, begin, end, line;
};

/* Pixels of a row that are copied to local memory at once. */
static int together_of(const struct conv_args *a)
{
    if (conv_taps(a) == 1)
        return MOST_TOGETHER;
    for (int t = MOST_TOGETHER; t > 1; t /= 2)
        if (a->stride[1] * a->stride[2] == 1 && a->in[2] % t == 0 && a->src_n % t == 0)
            return t;
    return 1;
}

static struct side side_of(const struct conv_args *a, int d)
{
    if (conv_taps(a) == 1)
        return (struct side){.taps = 1, .line = a->out[d]};
    const int stride = a->stride[d], pad = a->pad[d];
    struct side s = {.taps = (int)ceil_div((size_t)a->ker[d], (size_t)stride)};
    for (int phase = 0; phase < stride; phase++) {
        const int first = SCALED_FIRST(phase, pad, stride), before = SCALED_BEFORE(phase, pad, stride);
        const int last = (a->ker[d] - 1 - first) / stride * a->dil[d] - before;
        s.begin = before > s.begin ? before : s.begin;
        s.end = last > s.end ? last : s.end;
    }
    const int in = (int)ceil_div((size_t)a->in[d], (size_t)stride) + s.begin, out = a->out[d] + s.end;
    s.line = in > out ? in : out;
    if (d == 2)
        s.line = (int)round_up((size_t)s.line, (size_t)together_of(a));
    return s;
}

static int taps_of(const struct conv_args *a)
{
    return side_of(a, 1).taps * side_of(a, 2).taps;
}

static bool is_strided(const struct conv_args *a)
{
    return conv_taps(a) > 1 && a->stride[1] * a->stride[2] > 1;
}

/* Planes of channels that windows have: those of volumes, or phases. */
static int planes_of(const struct conv_args *a)
{
    return is_strided(a) ? a->stride[1] * a->stride[2] : a->ker[0];
}

int scaled_channels(const struct conv_args *a)
{
    return (int)round_up((size_t)(a->c / a->groups), (size_t)SCALED_CHANNELS(taps_of(a)));
}

/* Planes of all volumes, each of which is an image. */
static int64_t images_of(const struct conv_args *a)
{
    return (int64_t)a->n * a->out[0];
}

/* Positions of an image with its zeros. */
static int64_t image_of(const struct conv_args *a)
{
    return (int64_t)side_of(a, 1).line * side_of(a, 2).line;
}

/* Positions before and behind a tile that its windows see. */
static int ahead_of(const struct conv_args *a)
{
    const struct side right = side_of(a, 2);
    return (int)round_up((size_t)(side_of(a, 1).begin * right.line + right.begin), (size_t)together_of(a));
}

static int behind_of(const struct conv_args *a)
{
    const struct side right = side_of(a, 2);
    return side_of(a, 1).end * right.line + right.end;
}

static int span_of(const struct conv_args *a, const struct tile *t)
{
    return taps_of(a) == 1 ? t->positions
                           : (int)round_up((size_t)(t->positions + ahead_of(a) + behind_of(a)), SPAN_UNIT);
}

static bool fits(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    const int high = side_of(a, 1).taps, wide = side_of(a, 2).taps, span = span_of(a, t);
    const bool single = high * wide == 1, short_ends = single && !p->add.present && !mma_slow_activation(p);
    const bool meant = single ? t->tile > 0.0f && (t->window > 0.0f || short_ends) : t->window > 0.0f;
    return meant && span <= MAX_SPAN &&
           SCALED_FILTER_STAGES(high, wide, t->filters, t->positions, span) >= LEAST_STAGES &&
           (single || (image_of(a) >= LEAST_IMAGE && span / image_of(a) + 2 <= SCALED_SCALES));
}

/* Whether what is added comes through the stages of pixels, in fours; in single values it would come too slowly. */
static bool adds_come_as_pixels(const struct conv_args *a)
{
    return taps_of(a) == 1 && a->out[1] * a->out[2] % 4 == 0;
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
    return taps_of(a) > 1 && t->filters == 64 && t->positions <= 256 ? LARGE_GROUP : GROUP;
}

/* 16 channels of a plane for windows: their products and halves, unless copying the pixels takes longer, or what cannot be done at
 * the same time. */
static float chunk_of(const struct conv_args *a, const struct tile *t)
{
    static const float copies[] = {[1] = WGMMA_SCALED_COPY_ONES_NS,
                                   [2] = WGMMA_SCALED_COPY_TWOS_NS,
                                   [MOST_TOGETHER] = WGMMA_SCALED_COPY_FOURS_NS};
    const float products = (float)taps_of(a) * t->tap + t->position * (float)span_of(a, t);
    const float copied = copies[together_of(a)] * (a->stride[2] > 1 ? WGMMA_SCALED_APART_RATIO : 1.0f) *
                         (float)(t->positions + ahead_of(a) + behind_of(a));
    const float least = WGMMA_SCALED_CHUNK_NS * (group_of(a, t) > GROUP ? WGMMA_SCALED_MAKERS_RATIO : 1.0f);
    return fmaxf(products, fmaxf(copied, least));
}

/* Single pixels of maps wait for the activation, and windows where the warps of a tile that have no filters wait for the others. */
static float act_time(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    const bool waits = taps_of(a) == 1 ? image_of(a) > 1 : a->k / a->groups < t->filters;
    return waits ? mma_act_time(p, t->filters * t->positions) : 0.0f;
}

/* What this tile would do, and in what time. */
static struct choice with_tile(const struct problem *p, const struct conv_args *a, const struct tile *t)
{
    const size_t each = ceil_div((size_t)(images_of(a) * image_of(a)), (size_t)t->positions);
    const size_t all = each * (size_t)conv_blocks(a, t->filters);
    const float waves = (float)ceil_div(all, p->device->compute_units);
    const int taps = taps_of(a);
    const float ones = loads_fours(a) ? 0.0f : WGMMA_SCALED_ONES_NS * (float)t->positions;
    const float chunk = taps == 1 ? t->chunk + ones : chunk_of(a, t);
    const float sums = (taps == 1 ? t->tile : t->window) + act_time(p, a, t) +
                       (float)(planes_of(a) * scaled_channels(a) / 16) * chunk;
    const bool early = !p->times && adds_come_as_pixels(a);
    const float added = t->added * (p->add.present ? early ? 1.0f : WGMMA_SCALED_LATE_RATIO : 0.0f);
    return (struct choice){t, span_of(a, t), each, all, MMA_START_NS + waves * (sums + added), waves * added};
}

/* No tile where none fits. */
static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {NULL, 0, 0, 0, 0.0f, 0.0f};
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const struct choice c = with_tile(p, a, &tiles[i]);
        if (fits(p, a, c.tile) && (best.tile == NULL || c.time < best.time))
            best = c;
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
           a->pad[d] <= (a->ker[d] - 1) * a->dil[d] && side_of(a, d).taps <= MOST_TAPS;
}

/* Single pixels, or windows; planes of those at stride 1 behind one another, as many as there are in the map. */
static bool window_fits(const struct conv_args *a)
{
    const int planes = a->ker[0];
    const bool flat = !conv_is_volume(a);
    if (conv_taps(a) == 1)
        return flat && a->pad[1] + a->pad[2] == 0;
    return side_fits(a, 1) && side_fits(a, 2) && taps_of(a) > 1 &&
           (flat || (a->stride[0] == 1 && a->dil[0] == 1 && planes % 2 == 1 && a->pad[0] == planes / 2 &&
                     a->out[0] == a->in[0] && !is_strided(a)));
}

/* Windows of one pixel have too little to multiply for blocks that are half empty. */
static bool fills_blocks(const struct conv_args *a)
{
    return taps_of(a) > 1 || a->k / a->groups >= WGMMA_SCALED_LEAST_FILTERS;
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

size_t filter_halves_bytes(const struct conv_args *a, int block, bool pairs)
{
    const size_t blocks = (size_t)conv_blocks(a, block),
                 each = (size_t)(planes_of(a) * scaled_channels(a) * taps_of(a));
    const size_t chunks = (size_t)(planes_of(a) * scaled_channels(a) / SCALED_CHANNELS(taps_of(a)));
    return blocks * ((pairs ? 2 : 1) * sizeof(uint16_t) * each * (size_t)block +
                     sizeof(float) * (chunks * SCALED_GAINS(taps_of(a)) + (size_t)block));
}

size_t channel_sizes_bytes(const struct conv_args *a, int block)
{
    return sizeof(float) * (size_t)conv_blocks(a, block) * (size_t)(planes_of(a) * scaled_channels(a));
}

size_t scaled_workspace(const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    return p->in[1].constant ? 0
                             : filter_halves_bytes(a, c.tile->filters, false) + filter_sizes_bytes(a) +
                                   channel_sizes_bytes(a, c.tile->filters);
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return scaled_workspace(p, &a);
}

static struct conv_scaled_pack_args pack_args(const struct conv_args *a)
{
    return (struct conv_scaled_pack_args){
        .w_k = a->w_k,
        .groups = a->groups,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .taps = taps_of(a),
        .planes = planes_of(a),
        .padded = scaled_channels(a),
        .ker = {a->ker[1], a->ker[2]},
        .stride = {a->stride[1], a->stride[2]},
        .pad = {a->pad[1], a->pad[2]},
        .wide = side_of(a, 2).taps,
    };
}

/* How filters are packed, which tells views of them apart. */
static void name_pack(char name[128], const char *what, const struct conv_scaled_pack_args *args, int block,
                      enum filter_gains gains, bool pairs)
{
    snprintf(name, 128, "%s g%d k%d c%d t%d p%d s%dx%d o%dx%d w%d b%d a%d h%d", what, args->groups, args->kg,
             args->c, args->taps, args->planes, args->stride[0], args->stride[1], args->pad[0], args->pad[1],
             args->wide, block, (int)gains, 1 + pairs);
}

static void define_pack(struct step *s, const struct conv_args *a, int block, enum filter_gains gains)
{
    step_define(s, "BM", block);
    if (is_strided(a))
        step_define(s, "STRIDED", 1);
    if (gains == GAINS_OF_ALL)
        step_define(s, "ALL_FILTERS", 1);
}

/* The largest scaled weight of each channel, for filters that have gains together. */
static int emit_channel_sizes(struct emit *e, const struct problem *p, const struct conv_args *a, int block,
                              enum filter_gains gains, int sizes)
{
    const struct conv_scaled_pack_args args = pack_args(a);
    const size_t channels = channel_sizes_bytes(a, block) / sizeof(float);
    char name[128];
    name_pack(name, "conv_channel_sizes", &args, block, gains, false);
    struct step *setup;
    const int view =
        emit_packed(e, &p->in[1], name, channels * sizeof(float), "conv_wgmma_scaled_pack", "channels",
                    ceil_div(channels, GROUP_SIZE / FILTER_TEAM), GROUP_SIZE, &setup);
    if (setup) {
        define_pack(setup, a, block, gains);
        step_read(setup, p->in[1].view);
        step_read(setup, sizes);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 4.0 * (double)a->k * args.c * args.taps);
    }
    return view;
}

int emit_filter_halves(struct emit *e, const struct problem *p, const struct conv_args *a, int block,
                       enum filter_gains gains, bool pairs)
{
    const struct conv_scaled_pack_args args = pack_args(a);
    const size_t bytes = filter_halves_bytes(a, block, pairs);
    const size_t slabs = (size_t)(args.planes * args.padded / 16 * args.taps);
    char name[128];
    name_pack(name, "conv_wgmma_scaled_pack", &args, block, gains, pairs);
    const int sizes = emit_filter_sizes(e, p, a, 0);
    const int largest = gains == GAINS_NONE ? VIEW_NONE : emit_channel_sizes(e, p, a, block, gains, sizes);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, "conv_wgmma_scaled_pack", "main",
                                 (size_t)conv_blocks(a, block) * slabs, GROUP_SIZE, &setup);
    if (setup) {
        define_pack(setup, a, block, gains);
        if (gains == GAINS_NONE)
            step_define(setup, "GAINS", 0);
        if (pairs)
            step_define(setup, "PAIRS", 1);
        step_read(setup, p->in[1].view);
        step_read(setup, sizes);
        step_read(setup, largest);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

struct step *emit_scaled(struct emit *e, const struct problem *p, const struct conv_args *a)
{
    struct choice c;
    DECIDED(p, c);
    const size_t most = p->device->compute_units;
    const struct side down = side_of(a, 1), right = side_of(a, 2);
    const struct conv_scaled_args args = {
        .conv = *a,
        .tiles = (int64_t)c.all,
        .at_once = (int32_t)(c.all < most ? c.all : most),
        .tiles_each = (int32_t)c.each,
        .positions = (int32_t)(images_of(a) * image_of(a)),
        .chunks = planes_of(a) * scaled_channels(a) / SCALED_CHANNELS(taps_of(a)),
        .line = {down.line, right.line},
        .ahead = ahead_of(a),
        .behind = behind_of(a),
    };
    const int packed = emit_filter_halves(e, p, a, c.tile->filters, GAINS_OF_BLOCK, false);
    struct step *s = emit_step(e, "conv_wgmma_scaled", "main", (size_t)args.at_once, group_of(a, c.tile));
    step_define(s, "HIGH", down.taps);
    step_define(s, "WIDE", right.taps);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->positions);
    step_define(s, "SPAN", c.span);
    if (epilogue_add(p) == 1 && adds_come_as_pixels(a))
        step_define(s, "ADD_STAGES", 1);
    if (taps_of(a) == 1 && a->in[1] * a->in[2] == 1)
        step_define(s, "DEEP", 1);
    if (together_of(a) < MOST_TOGETHER)
        step_define(s, "TOGETHER", together_of(a));
    if (is_strided(a))
        step_define(s, "STRIDED", 1);
    if (conv_is_volume(a))
        step_define(s, "VOLUME", 1);
    if (scaled_channels(a) > a->c / a->groups)
        step_define(s, "RAGGED", 1);
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
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
