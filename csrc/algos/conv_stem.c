/* conv_stem: register tiles from a row-major map of few channels to channel blocks; see kernels/conv_stem.cl. */
#include "algos/conv_tiles.h"

#define AREA 8192 /* floats of a work-item's private rows: half of a core's nearest cache, or a little more */

static int rows(const struct conv_args *a)
{
    return a->c * a->ker[1];
}

/* Columns that the private rows hold: whole vectors. */
static int max_columns(const struct problem *p, const struct conv_args *a)
{
    return AREA / rows(a) / p->block * p->block;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.groups == 1, "grouped convolutions are left to blocked and rows");
    REQUIRE(why, conv_least_columns(&a) <= max_columns(p, &a),
            "the input rows of a tile must fit 8192 floats");
    PREFER(why, a.c <= 4, "more than 4 channels fill channel blocks better");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    const struct conv_tile tile = conv_best_tile(p, &a, max_columns(p, &a));
    return conv_packing_workspace(p, &a, conv_tile_packing(p, &tile, 1));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const int most = max_columns(p, &a);
    const struct conv_tile tile = conv_best_tile(p, &a, most);
    const int packed = emit_conv_packed(e, p, &a, conv_tile_packing(p, &tile, 1));
    const int tiles = (int)ceil_div((size_t)a.out[2], (size_t)tile.t);
    int per_item = tiles;
    while (conv_columns(&a, per_item * tile.t) > most)
        per_item--;
    const struct conv_stem_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .c = a.c,
        .k = a.k,
        .in = {a.in[1], a.in[2]},
        .out = {a.out[1], a.out[2]},
        .ker = {a.ker[1], a.ker[2]},
        .stride = a.stride[1],
        .pad = {a.pad[1], a.pad[2]},
        .dil = {a.dil[1], a.dil[2]},
        .segments = (i32)ceil_div((size_t)tiles, (size_t)per_item),
        .per_item = per_item,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    struct step *s =
        emit_step(e, "conv_stem", "main", (size_t)a.n * (size_t)a.out[1] * (size_t)args.segments, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", tile.t);
    step_define(s, "KV", tile.kv);
    step_define(s, "SW", a.stride[2]);
    step_define(s, "AREA", AREA);
    blocked_conv_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_stem = {
    .name = "stem",
    .doc = "register tiles from row-major maps of few channels to channel blocks (CPU devices)",
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = FORM_PLAIN,
    .dst = FORM_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
