/* conv_group_tile: tiles of outputs of a few filters of a group in registers, over which a window of known size slides; see
 * kernels/conv/conv_group_tile.cl. */
#include "algos/conv/conv_common.h"
#include "algos/conv/window_tile.h"
#include "algos/cost/cost.h"

enum { MOST_FILTERS = 8, ENOUGH = 192, SHARED = 8, FRAGMENT = 16 };

struct choice {
    int filters, rows; /* of a tile */
};

static size_t items_of(const struct conv_args *a, struct choice c)
{
    return (size_t)conv_blocks(a, c.filters) * window_tiles(a, c.rows);
}

static bool enough(const struct problem *p, const struct conv_args *a, struct choice c)
{
    return items_of(a, c) >= ENOUGH * (size_t)device_units(p->device);
}

/* As large as registers allow. */
static struct choice largest(const struct conv_args *a)
{
    struct choice c = {2, a->out[1] > 1 ? 2 : 1};
    while (c.filters < MOST_FILTERS && c.filters < a->k / a->groups)
        c.filters *= 2;
    return c;
}

/* A large tile reads a pixel once for all its sums; smaller ones, where there are not enough to hide the time that reading takes. */
static struct choice choose(const struct problem *p, const struct conv_args *a)
{
    struct choice c = largest(a);
    while (c.filters > 2 && !enough(p, a, c))
        c.filters /= 2;
    while (c.rows > 1 && !enough(p, a, c))
        c.rows /= 2;
    return c;
}

/* Whether a convolution of few channels, as networks begin with, takes less time here than on tensor cores, whose fragments it fills
 * in part. */
static bool beats_fragments(const struct problem *p, const struct conv_args *a)
{
    const int taps = conv_taps(a);
    const bool first = a->c <= GROUP_TILE_FIRST_CHANNELS && taps <= GROUP_TILE_HIGH_TAPS;
    if (a->groups > 1 || taps == 1 || !device_traits(p->device).tensor_cores ||
        !(first || enough(p, a, largest(a))))
        return false;
    if (p->precision >= CLCNN_PRECISION_HIGH)
        return taps <= GROUP_TILE_HIGH_TAPS && a->k <= GROUP_TILE_HIGH_FILTERS &&
               a->k * a->c * taps <= GROUP_TILE_HIGH_PRODUCTS;
    const bool fills = 4 * a->c >= 3 * (int)round_up((size_t)a->c, FRAGMENT);
    return taps <= GROUP_TILE_TAPS &&
           (fills ? a->c <= FRAGMENT && a->k <= GROUP_TILE_FULL_FILTERS : a->k <= GROUP_TILE_FILTERS);
}

/* Channels or filters of a group. Sixteen fill the fragments of tensor cores, but products of all bits take these three times. */
static int most_channels(const struct problem *p, const struct conv_args *a)
{
    if (a->groups > 1 && !device_traits(p->device).tensor_cores)
        return 32;
    const bool quads = a->in[2] % 4 == 0 && a->out[2] % 4 == 0, exact = p->precision < CLCNN_PRECISION_HIGH;
    return a->groups > 1 && exact && quads && enough(p, a, largest(a)) ? 24 : 15;
}

static struct conv_packing packing_of(struct choice c)
{
    return (struct conv_packing){.block = c.filters};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, window_tile_fits(&a), WINDOW_TILE_FITS);
    const struct choice c = choose(p, &a);
    DECIDE(p, c);
    const int most = most_channels(p, &a);
    PREFER(why, (a.c / a.groups <= most && a.k / a.groups <= most) || beats_fragments(p, &a),
           "tiles by themselves are meant for groups of few channels and filters");
    PREFER(why, !conv_is_dense(&a) || a.c / a.groups < SHARED || enough(p, &a, c),
           "work-items share channels where there are few tiles");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    return conv_packing_workspace(p, &a, packing_of(c));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct choice c;
    DECIDED(p, c);
    const size_t wg = any_group_size(p);
    const int packed = emit_conv_packed(e, p, &a, packing_of(c));
    struct step *s = emit_step(e, "conv_group_tile", "main", ceil_div(items_of(&a, c), wg), wg);
    step_define(s, "FK", c.filters);
    step_define_window(s, &a, c.rows);
    conv_step(s, p, packed, &a, sizeof a);
}

const struct algo_def algo_conv_group_tile = {
    .name = "group_tile",
    .doc = "groups of few channels, first layers: a tile of outputs of several filters in registers under a "
           "sliding window",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
