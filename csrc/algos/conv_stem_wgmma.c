/* conv_stem_wgmma: few channels on Hopper's tensor cores, filters and windows in local memory; see kernels/conv_stem_wgmma.cl. */
#include "algos/conv_mma_common.h"

enum {
    BLOCK = 64,      /* filters of a group */
    RESIDENT = 2,    /* groups that a multiprocessor has room for */
    FEW_DEPTHS = 64, /* to which this is not known to be faster than stem_mma, */
    FEW_TILES = 4,   /* and so with fewer tiles a multiprocessor */
};

static int depth_of(const struct conv_args *a)
{
    return (int)round_up((size_t)(a->c * a->ker[1] * a->ker[2]), STEM_WGMMA_FLUSH);
}

/* Bytes of local memory: the barrier, filters and what tf32 leaves out of them, offsets, two windows. */
static size_t local_of(const struct conv_args *a, enum mma_products products)
{
    const size_t high = (size_t)(STEM_TILE_HIGH - 1) * (size_t)a->stride[1] + (size_t)a->ker[1];
    const size_t wide = (size_t)(STEM_TILE_WIDE - 1) * (size_t)a->stride[2] + (size_t)a->ker[2];
    const size_t parts = products == MMA_FLOAT32 ? 2 : 1;
    return 128 + sizeof(float) * ((parts * BLOCK + 1) * (size_t)depth_of(a) + 2 * (size_t)a->c * high * wide);
}

static size_t tiles_of(const struct conv_args *a)
{
    return (size_t)a->n * ceil_div((size_t)a->out[1], STEM_TILE_HIGH) *
           ceil_div((size_t)a->out[2], STEM_TILE_WIDE);
}

static bool may(const struct problem *p, struct why *why, enum mma_products products)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.groups == 1 && mma_few_channels(&a),
            "one group of channels that are too few for mma's layout");
    REQUIRE(why, a.dil[1] == 1 && a.dil[2] == 1, "the taps of a window must be neighbours");
    REQUIRE(why, local_of(&a, products) <= STEM_WGMMA_BYTES,
            "filters and the windows of two tiles must fit half of the local memory");
    PREFER(why, a.k > BLOCK / 2, "32 filters or fewer leave half of a block empty");
    PREFER(why, depth_of(&a) > FEW_DEPTHS && tiles_of(&a) >= FEW_TILES * device_units(p->device),
           "not known to be faster with few tiles or little depth");
    return true;
}

static size_t packed_count(const struct conv_args *a)
{
    return BLOCK * (size_t)conv_blocks(a, BLOCK) * (size_t)depth_of(a);
}

static size_t bytes_of(const struct problem *p, struct mma_form form)
{
    const struct conv_args a = conv_args_of(p);
    (void)form;
    return p->in[1].constant ? 0 : sizeof(float) * packed_count(&a);
}

static void emit_form(const struct problem *p, struct emit *e, struct mma_form form)
{
    const struct conv_args a = conv_args_of(p);
    const int blocks = conv_blocks(&a, BLOCK), depth = depth_of(&a);
    const size_t tiles = tiles_of(&a);
    const size_t room = ceil_div(device_units(p->device) * RESIDENT, (size_t)blocks);
    const size_t at_once = tiles < room ? tiles : room;
    const struct conv_mma_pack_args pack = {
        .w_k = a.w_k,
        .groups = 1,
        .kg = a.k,
        .c = a.c * a.ker[1] * a.ker[2], /* as a 1x1 convolution */
        .taps = 1,
        .padded = depth,
        .depth = depth,
    };
    const int packed = emit_wgmma_filters(e, p, &pack, packed_count(&a), BLOCK, form.products == MMA_TF32);
    const struct conv_mma_args args = {
        .conv = a, .padded = depth, .depth = depth, .tiles = (int64_t)tiles, .at_once = (int32_t)at_once};
    struct step *s = emit_step(e, "conv_stem_wgmma", "main", at_once * (size_t)blocks, GROUP_SIZE);
    step_define(s, "BM", BLOCK);
    step_define(s, "PRODUCTS", (int)form.products);
    conv_step(s, p, packed, &args, sizeof args);
}

static bool may_float32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_FLOAT32);
}

static bool may_tf32(const struct problem *p, struct why *why)
{
    return may(p, why, MMA_TF32);
}

MMA_FORM(float32, {MMA_HOPPER, MMA_FLOAT32, 0})
MMA_FORM(tf32, {MMA_HOPPER, MMA_TF32, 0})

const struct algo_def algo_conv_stem_wgmma = {
    .name = "stem_wgmma",
    .doc =
        "few channels on Hopper's tensor cores, filters and windows in local memory, three tf32 products for "
        "one of float32",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = may_float32,
    .workspace = bytes_float32,
    .emit = emit_float32,
};

const struct algo_def algo_conv_stem_wgmma_tf32 = {
    .name = "stem_wgmma_tf32",
    .doc = "few channels on Hopper's tensor cores, filters and windows in local memory, operands rounded to "
           "tf32",
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = may_tf32,
    .workspace = bytes_tf32,
    .emit = emit_tf32,
};
