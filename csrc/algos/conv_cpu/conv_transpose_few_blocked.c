/* conv_transpose_few_blocked: few filters over maps with channels in blocks, whose lanes are channels; see
 * kernels/conv_cpu/conv_transpose_few_blocked.cl. */
#include "algos/conv/conv_transpose_common.h"
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/cost/cost.h"

/* Tiles whose sums a work-item keeps. */
#define TILES 16

/* Places of an output row by some of the filters. */
struct tile {
    int places, filters;
};

/* Once their lanes have been added up, the columns of a filter's places fill a vector. Two or three filters, which share the
 * input, fill half of one each: their sums fit 32 registers of 16 floats, and 16 of 8. */
static struct tile tile_of(const struct problem *p, const struct conv_args *a)
{
    const int half = p->block / 2 / a->stride[2], together = a->k % 3 == 0 ? 3 : a->k % 2 == 0 ? 2 : 1;
    if (half > 0 && together > 1)
        return (struct tile){half, together};
    return (struct tile){p->block / a->stride[2], 1};
}

/* Tiles of an output row. Its first place may begin within the padding. */
static size_t row_tiles(const struct conv_args *a, int places)
{
    const int64_t end = (int64_t)a->pad[2] + a->out[2];
    return ceil_div((size_t)ceil_div((size_t)end, (size_t)a->stride[2]) - (size_t)(a->pad[2] / a->stride[2]),
                    (size_t)places);
}

/* Weights [blocks of V channels][K][taps][V]: channels are what filters are to a convolution. */
static struct conv_packing packing(const struct problem *p)
{
    return (struct conv_packing){.block = p->block};
}

static struct conv_args filters_of(const struct conv_args *a)
{
    struct conv_args filters = *a;
    filters.c = a->k;
    filters.k = a->c;
    return filters;
}

/* Whether lanes of channels take less than lanes of filters, in multiply-adds at the peak for a pixel of the output. */
static bool pays(const struct problem *p, const struct conv_args *a)
{
    const int places = tile_of(p, a).places;
    const double taps = (double)conv_taps(a) / ((double)a->stride[0] * a->stride[1] * a->stride[2]);
    const double columns = (double)row_tiles(a, places) * places * a->stride[2] / a->out[2];
    const double depth = taps * blocked_count(p, a->c) * p->block;
    const double channels = depth / CONV_FEW_BLOCKED_PEAK_RATIO + CONV_TRANSPOSE_FEW_BLOCKED_SUM_MACS;
    const double filters = taps * a->c * p->block / DIRECT_PEAK_RATIO + CONV_TRANSPOSE_BLOCKED_STORE_MACS;
    return a->k * columns * channels < blocked_count(p, a->k) * filters;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, a.groups == 1, "grouped transposed convolutions are left to blocked and depthwise_blocked");
    REQUIRE(why, a.dil[2] == 1, "columns that a dilated window leaves out have no place beside the others");
    REQUIRE(why, a.stride[2] <= p->block, "columns between two pixels of a row are more than a vector has");
    PREFER(why, pays(p, &a), "so many filters, or so short rows, are computed sooner with filters as lanes");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p), filters = filters_of(&a);
    return conv_packing_workspace(p, &filters, packing(p));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p), filters = filters_of(&a);
    const int packed = emit_conv_packed(e, p, &filters, packing(p));
    const struct tile tile = tile_of(p, &a);
    const size_t rows = (size_t)a.n * (size_t)a.out[0] * (size_t)a.out[1], tiles = row_tiles(&a, tile.places);
    const size_t segments = ceil_div(conv_wanted_items(p), rows), fewest = ceil_div(tiles, TILES);
    const size_t per_item = ceil_div(tiles, segments > fewest ? segments : fewest);
    const size_t bytes = sizeof(float) * (size_t)(conv_taps(&a) * tile.filters * p->block);
    const struct conv_transpose_few_blocked_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .k = a.k,
        .c_blocks = blocked_count(p, a.c),
        .c_step = bytes < CONV_FEW_BLOCKED_STEP_BYTES ? (i32)(CONV_FEW_BLOCKED_STEP_BYTES / bytes) : 1,
        .tiles = (i32)tiles,
        .segments = (i32)ceil_div(tiles, per_item),
        .per_item = (i32)per_item,
        .phases = conv_phases_of(&a),
        .depth = conv_depth_phases_of(&a),
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    struct step *s = emit_step(e, "conv_transpose_few_blocked", "main", rows * (size_t)args.segments, 1);
    step_define(s, "V", p->block);
    step_define(s, "SW", a.stride[2]);
    step_define(s, "T", tile.places);
    step_define(s, "K", tile.filters);
    step_define(s, "TILES", TILES);
    blocked_step(s, p, packed, &args, sizeof args);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_few_blocked = {
    .name = "few_blocked",
    .doc = "few filters: lanes are channels, from channel blocks to row-major maps",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_ROW_MAJOR,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
