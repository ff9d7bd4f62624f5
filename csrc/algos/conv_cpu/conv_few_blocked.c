/* conv_few_blocked: few filters over maps with channels in blocks, whose lanes are channels; see kernels/conv_cpu/conv_few_blocked.cl. */
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/cost/cost.h"
#include "conv_cpu/conv_cpu_args.h"

/* Tiles whose sums a work-item keeps. */
#define TILES 16

/* Pixels of a tile by filters, with 32 registers of 16 floats and with 16 of 8: a power of two. From two pixels on, as one would
 * load as much as it computes. */
static const int wide_tiles[] = {0, 16, 8, 8, 4, 4, 4, 2, 2}, narrow_tiles[] = {0, 8, 4, 4, 2, 2, 2};

static int tile_of(const struct problem *p, int filters)
{
    if (p->block == 16)
        return filters < COUNT_OF(wide_tiles) ? wide_tiles[filters] : 0;
    return filters < COUNT_OF(narrow_tiles) ? narrow_tiles[filters] : 0;
}

/* Weights [blocks of V channels][R][S][K][V]: those of a transposed convolution whose filters are the channels here. */
static struct conv_packing packing(const struct problem *p)
{
    return (struct conv_packing){.block = p->block, .tap_major = true, .transposed = true};
}

static struct conv_args filters_of(const struct conv_args *a)
{
    struct conv_args filters = *a;
    filters.c = a->k;
    filters.k = a->c;
    return filters;
}

/* What lanes of channels take for a pixel, in multiply-adds at the peak. */
static double pixel_cost(const struct problem *p, const struct conv_args *a)
{
    const double depth = (double)a->ker[1] * a->ker[2] * blocked_count(p, a->c) * p->block;
    return a->k * (depth / CONV_FEW_BLOCKED_PEAK_RATIO + CONV_FEW_BLOCKED_SUM_MACS);
}

/* Whether that is less than lanes of filters take. */
static bool pays(const struct problem *p, const struct conv_args *a)
{
    const double lanes = (double)a->ker[1] * a->ker[2] * a->c * p->block * blocked_count(p, a->k);
    return pixel_cost(p, a) < lanes / DIRECT_PEAK_RATIO;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, a.groups == 1, "grouped convolutions are left to blocked and rows");
    REQUIRE(why, tile_of(p, a.k) > 0, "so many filters leave no registers for a tile of pixels");
    PREFER(why, a.c * 2 > p->block, FEW_CHANNELS);
    PREFER(why, a.out[2] * 2 >= p->block,
           "short rows are better read pixel by pixel"); /* and stay on blocks */
    PREFER(why, pays(p, &a), "so many filters fill the lanes of a block better");
    return true;
}

static double effort_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return blocked_effort(&a, (double)conv_pixels(&a) * pixel_cost(p, &a));
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p), filters = filters_of(&a);
    return conv_packing_workspace(p, &filters, packing(p));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p), filters = filters_of(&a);
    const int packed = emit_conv_packed(e, p, &filters, packing(p)), t = tile_of(p, a.k);
    const size_t rows = (size_t)a.n * (size_t)a.out[1], tiles = ceil_div((size_t)a.out[2], (size_t)t);
    const size_t segments = ceil_div(conv_wanted_items(p), rows), fewest = ceil_div(tiles, TILES);
    const size_t per_item = ceil_div(tiles, segments > fewest ? segments : fewest);
    const size_t bytes = sizeof(float) * (size_t)(a.ker[1] * a.ker[2] * a.k * p->block);
    const struct conv_few_blocked_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .c_blocks = blocked_count(p, a.c),
        .c_step = bytes < CONV_FEW_BLOCKED_STEP_BYTES ? (i32)(CONV_FEW_BLOCKED_STEP_BYTES / bytes) : 1,
        .in = {a.in[1], a.in[2]},
        .out = {a.out[1], a.out[2]},
        .ker = {a.ker[1], a.ker[2]},
        .stride = a.stride[1],
        .pad = {a.pad[1], a.pad[2]},
        .dil = {a.dil[1], a.dil[2]},
        .segments = (i32)ceil_div(tiles, per_item),
        .per_item = (i32)per_item,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    struct step *s = emit_step(e, "conv_few_blocked", "main", rows * (size_t)args.segments, 1);
    step_define(s, "V", p->block);
    step_define(s, "K", a.k);
    step_define(s, "T", t);
    step_define(s, "TILES", TILES);
    step_define(s, "SW", a.stride[2]);
    blocked_conv_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_few_blocked = {
    .name = "few_blocked",
    .doc = "few filters: lanes are channels, from channel blocks to row-major maps",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_ROW_MAJOR,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
