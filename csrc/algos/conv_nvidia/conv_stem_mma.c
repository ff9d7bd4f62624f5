/* conv_stem_mma: few channels on NVIDIA's tensor cores, windows in local memory; see kernels/conv_nvidia/conv_stem_mma.cl. */
#include <math.h>

#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/conv_nvidia/conv_wgmma_scaled.h"
#include "conv_nvidia/conv_nvidia_args.h"

enum {
    STEP = 16,          /* filters of a tensor core's tile, */
    LEAST_FILTERS = 12, /* and how many are worth one */
    MOST_CHANNELS = 8,  /* where wgmma_scaled serves, too */
};

/* Channels between taps are as many as there are. */
static struct mma_filters filters_of(const struct conv_args *a)
{
    const int depth = (int)round_up((size_t)(a->c * conv_taps(a)), STEP);
    return (struct mma_filters){a->c, depth, MMA_FLOAT32};
}

/* Floats of local memory: the window of a tile and a zero, and an offset for each depth. */
static size_t floats_of(const struct conv_args *a)
{
    const size_t high = (size_t)(STEM_TILE_HIGH - 1) * (size_t)a->stride[1] + (size_t)a->ker[1];
    const size_t wide = (size_t)(STEM_TILE_WIDE - 1) * (size_t)a->stride[2] + (size_t)a->ker[2];
    return (size_t)(a->ker[0] * a->c) * high * wide + 1 + (size_t)filters_of(a).depth;
}

static int block_of(const struct conv_args *a)
{
    return a->k > 2 * STEP ? 4 * STEP : a->k > STEP ? 2 * STEP : STEP;
}

static size_t outputs_of(const struct conv_args *a)
{
    return (size_t)a->out[1] * (size_t)a->out[2];
}

/* Of an image, which a plane of a volume is. */
static size_t tiles_of(const struct conv_args *a)
{
    return ceil_div((size_t)a->out[1], STEM_TILE_HIGH) * ceil_div((size_t)a->out[2], STEM_TILE_WIDE);
}

static bool halves_serve(const struct problem *p, const struct conv_args *a)
{
    return mma_cheapest(p) == MMA_TF32 && mma_on_device(p, MMA_HOPPER) && isfinite(scaled_expected(p, a));
}

static bool takes(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_AMPERE), "an NVIDIA GPU of compute capability 8.0 or later is needed");
    REQUIRE(why, a.groups == 1 && mma_few_channels(&a),
            "one group of channels that are too few for mma's layout");
    REQUIRE(why, a.dil[0] == 1 && a.dil[1] == 1 && a.dil[2] == 1, "the taps of a window must be neighbours");
    REQUIRE(why, floats_of(&a) <= STEM_CAPACITY, "the window of a tile must fit local memory");
    PREFER(why, 4 * outputs_of(&a) >= STEM_TILE_HIGH * STEM_TILE_WIDE * tiles_of(&a),
           "tiles of 8 x 16 outputs would be less than a quarter full");
    PREFER(why, a.k >= LEAST_FILTERS, "tiles of 16 filters would be mostly empty");
    PREFER(why, a.c <= MOST_CHANNELS || !halves_serve(p, &a),
           "wgmma_scaled takes more than 8 channels in less time");
    return true;
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    if (!takes(p, why))
        return false;
    PREFER(why, mma_cheapest(p) == MMA_TF32, "one product of as many bits as tf32's is for precision high");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return mma_filters_workspace(p, &a, filters_of(&a));
}

static void emit_products(const struct problem *p, struct emit *e, int products)
{
    const struct conv_args a = conv_args_of(p);
    const struct mma_filters filters = filters_of(&a);
    const struct conv_mma_args args = {.conv = a, .padded = filters.padded, .depth = filters.depth};
    const int packed = emit_mma_filters(e, p, &a, filters);
    const size_t tiles = (size_t)(a.n * a.out[0]) * tiles_of(&a);
    struct step *s =
        emit_step(e, "conv_stem_mma", "main", tiles * (size_t)conv_blocks(&a, block_of(&a)), GROUP_SIZE);
    step_define(s, "BM", block_of(&a));
    step_define(s, "PRODUCTS", products);
    step_define(s, "VOLUME", conv_is_volume(&a));
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, &args, sizeof args);
    conv_cost(s, p);
}

static void emit(const struct problem *p, struct emit *e)
{
    emit_products(p, e, 3);
}

static void emit_tf32(const struct problem *p, struct emit *e)
{
    emit_products(p, e, 1);
}

const struct algo_def algo_conv_stem_mma = {
    .name = "stem_mma",
    .doc = "few channels on NVIDIA tensor cores, windows in local memory, three tf32 products for one of "
           "float32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_STRICT,
    .rounding = ROUNDING_TF32_PARTS,
    .deterministic = true,
    .fp16 = FP16_DST | FP16_ADD,
    .applicable = takes,
    .workspace = workspace,
    .emit = emit,
};

const struct algo_def algo_conv_stem_tf32 = {
    .name = "stem_tf32",
    .doc = "few channels on NVIDIA tensor cores, windows in local memory, operands rounded to tf32",
    .devices = DEVICES_AMPERE,
    .error = ERROR_HIGH,
    .deterministic = true,
    .fp16 = FP16_DST | FP16_ADD,
    .applicable = may_tf32,
    .workspace = workspace,
    .emit = emit_tf32,
};
