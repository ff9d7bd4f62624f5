/* conv_group_tf32: few channels a group on NVIDIA's tensor cores, windows in local memory; see
 * kernels/conv_nvidia/conv_group_tf32.cl. */
#include <limits.h>
#include <math.h>

#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/conv_nvidia/conv_wgmma_halves.h"
#include "algos/conv_nvidia/conv_wgmma_scaled.h"
#include "algos/cost/cost.h"

enum {
    FRAGMENT = 16, /* filters of a fragment, */
    COLUMN = 8,    /* and pixels of one */
    CHUNK = 8,     /* channels of a stage */
    WARPS = 8,     /* of a group */
    MOST_BLOCKS = 2,
    MOST_COLUMNS = 8,
    MOST_SUMS = 8,    /* fragments of sums that leave registers for three groups */
    CAPACITY = 12032, /* floats of local memory */
    MOST_STAGES = 3,
    MOST_COPIES = 16, /* of a work-item for a stage */
    MOST_TAPS = 25,   /* each one is code of its own */
};

/* A warp computes `blocks` fragments of filters by so many columns of pixels; a tile has high x wide pixels of so many images,
 * whose windows have so many rows of `units` times `vec` pixels in local memory, `channel` floats for each channel. */
struct choice {
    int blocks, columns, high, wide, images, rows, units, vec, channel, stages;
    size_t down, across; /* tiles of a map */
    size_t groups;
    float time; /* that is expected, in ns */
};

static struct mma_filters filters_of(const struct conv_args *a)
{
    const int padded = (int)round_up((size_t)(a->c / a->groups), CHUNK);
    return (struct mma_filters){padded, padded * conv_taps(a), MMA_TF32};
}

/* Neighbouring pixels that are copied together: rows begin on a boundary of as many. */
static int together_of(const struct conv_args *a)
{
    return a->in[2] % 4 == 0 && a->src_n % 4 == 0 ? 4 : a->in[2] % 2 == 0 && a->src_n % 2 == 0 ? 2 : 1;
}

/* By a work-item for a stage: each warp copies a channel. */
static size_t pixel_copies(const struct choice *c)
{
    return ceil_div((size_t)(c->rows * c->images * c->units), GROUP_SIZE / WARPS);
}

static size_t filter_floats(const struct conv_args *a, const struct choice *c)
{
    return (size_t)(conv_taps(a) * c->blocks * FRAGMENT * CHUNK);
}

/* Floats from a channel to the next: those of four channels lie in banks of their own. */
static int channel_of(const struct choice *c)
{
    const int floats = c->rows * c->images * c->units * c->vec;
    return (int)round_up((size_t)floats + CHUNK, 2 * CHUNK) - CHUNK;
}

/* Of eight channels of pixels and filters, as many as fit. */
static int stages_of(const struct conv_args *a, const struct choice *c)
{
    const int stages = CAPACITY / (CHUNK * c->channel + (int)filter_floats(a, c));
    return stages < MOST_STAGES ? stages : MOST_STAGES;
}

static float time_of(const struct problem *p, const struct conv_args *a, const struct choice *c)
{
    const float taps = (float)conv_taps(a), chunks = (float)(filters_of(a).padded / CHUNK);
    const float sums = (float)(c->blocks * c->columns);
    const float rounds = fmaxf((float)ceil_div(c->groups, device_units(p->device)), GROUP_TF32_LEAST_ROUNDS);
    const size_t copies = pixel_copies(c) + ceil_div(filter_floats(a, c) / 4, GROUP_SIZE);
    const float chunk = taps * (GROUP_TF32_SUM_NS * sums + GROUP_TF32_READ_NS * (float)c->columns) +
                        GROUP_TF32_COPY_NS * (float)copies;
    return GROUP_TF32_START_NS + rounds * (chunks * chunk + GROUP_TF32_STORE_NS * sums);
}

/* Whether offsets in a tile's images fit an int. */
static bool fits_int(const struct conv_args *a, const struct choice *c)
{
    const int64_t apart = a->src_n > a->dst_n ? a->src_n : a->dst_n;
    return c->images * (apart > a->add_n ? apart : a->add_n) <= INT_MAX;
}

/* A tile of `wide` columns of an image, as high as its pixels allow; of several images where one is smaller. */
static struct choice with_tile(const struct problem *p, const struct conv_args *a, int blocks, int columns,
                               int wide)
{
    const int pixels = WARPS * columns * COLUMN, most = pixels / wide < a->out[1] ? pixels / wide : a->out[1];
    struct choice c = {
        .blocks = blocks, .columns = columns, .wide = wide, .vec = together_of(a), .images = 1};
    c.across = ceil_div((size_t)a->out[2], (size_t)wide);
    c.down = ceil_div((size_t)a->out[1], (size_t)most);
    c.high = (int)ceil_div((size_t)a->out[1], c.down);
    if (c.across * c.down == 1)
        c.images = pixels / (c.high * wide) < a->n ? pixels / (c.high * wide) : a->n;
    c.rows = (c.high - 1) * a->stride[1] + (a->ker[1] - 1) * a->dil[1] + 1;
    const int seen = (wide - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
    c.units = (int)ceil_div((size_t)(seen + c.vec - 1), (size_t)c.vec);
    c.channel = channel_of(&c);
    c.stages = stages_of(a, &c);
    c.groups = c.across * c.down * ceil_div((size_t)a->n, (size_t)c.images) *
               (size_t)conv_blocks(a, blocks * FRAGMENT);
    const bool fits = c.stages >= 2 && pixel_copies(&c) <= MOST_COPIES && fits_int(a, &c);
    c.time = fits ? time_of(p, a, &c) : INFINITY;
    return c;
}

/* Its time is infinite where no tile fits. */
static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice best = {.time = INFINITY};
    for (int blocks = 1; blocks <= MOST_BLOCKS; blocks++)
        for (int columns = 2; columns <= MOST_COLUMNS && blocks * columns <= MOST_SUMS; columns *= 2)
            for (int across = 1; across <= a->out[2]; across++) {
                const size_t even = ceil_div((size_t)a->out[2], (size_t)across);
                const int wide = (int)(across == 1 ? even : round_up(even, COLUMN)); /* whole columns */
                if (wide > WARPS * columns * COLUMN)
                    continue;
                const struct choice c = with_tile(p, a, blocks, columns, wide);
                if (c.time < best.time)
                    best = c;
            }
    return best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, conv_is_2d(p) && conv_taps(&a) <= MOST_TAPS,
            "windows of up to 25 taps of a plane are needed");
    const struct choice c = choose(p, &a);
    REQUIRE(why, isfinite(c.time), "the windows of a tile must fit local memory");
    DECIDE(p, c);
    PREFER(why, mma_cheapest(p) == MMA_TF32, "one product of as many bits as tf32's is for precision high");
    PREFER(why, a.c / a.groups > CHUNK,
           "tiles in registers take groups of up to eight channels in less time");
    const float halves =
        mma_on_device(p, MMA_HOPPER) ? fminf(scaled_expected(p, &a), halves_expected(p, &a)) : INFINITY;
    PREFER(why, c.time < fminf(mma_shortest(p, &a, MMA_TF32), halves),
           "tiles of halves, mma and wgmma are expected to be faster");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return mma_filters_workspace(p, &a, filters_of(&a));
}

static void define_tile(struct step *s, const struct conv_args *a, const struct choice *c)
{
    step_define(s, "MI", c->blocks);
    step_define(s, "NJ", c->columns);
    step_define(s, "KH", a->ker[1]);
    step_define(s, "KW", a->ker[2]);
    step_define(s, "DH", a->dil[1]);
    step_define(s, "DW", a->dil[2]);
    step_define(s, "CG", a->c / a->groups);
    step_define(s, "KG", a->k / a->groups);
    step_define(s, "GROUPS", a->groups);
    step_define(s, "DOWN", (int)c->down);
    step_define(s, "ACROSS", (int)c->across);
    step_define(s, "HIGH", c->high);
    step_define(s, "WIDE", c->wide);
    step_define(s, "IMAGES", c->images);
    step_define(s, "ROWS", c->rows);
    step_define(s, "UNITS", c->units);
    step_define(s, "CHANNEL", c->channel);
    step_define(s, "VEC", c->vec);
    step_define(s, "STAGES", c->stages);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    const int packed = emit_mma_filters(e, p, &a, filters_of(&a));
    struct step *s = emit_step(e, "conv_group_tf32", "main", c.groups, GROUP_SIZE);
    define_tile(s, &a, &c);
    conv_step(s, p, packed, &a, sizeof a);
}

const struct algo_def algo_conv_group_tf32 = {
    .name = "group_tf32",
    .doc = "few channels a group on NVIDIA tensor cores, windows in local memory, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16 = FP16_DST | FP16_ADD,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
