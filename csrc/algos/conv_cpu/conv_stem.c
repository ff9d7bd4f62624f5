/* conv_stem: register tiles from a row-major map of few channels to channel blocks; see kernels/conv_cpu/conv_stem.cl. */
#include "algos/common/blocked.h"
#include "algos/conv_cpu/conv_stem.h"

#define AREA 8192 /* floats of a work-item's private rows: half of a core's nearest cache, or a little more */

int stem_columns(const struct problem *p, const struct conv_args *a)
{
    return AREA / (a->c * a->ker[1]) / p->block * p->block; /* whole vectors */
}

bool stem_possible(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.groups == 1, "grouped convolutions are left to blocked and rows");
    REQUIRE(why, conv_least_columns(&a) <= stem_columns(p, &a),
            "the input rows of a tile must fit 8192 floats");
    return true;
}

static bool tile_known(const struct problem *p, const struct conv_args *a, const struct conv_tile *tile)
{
    const struct kernel_define wanted[] = {{"T", tile->t}, {"KV", tile->kv}, {"SW", a->stride[2]}};
    return kernel_known(p, "conv_stem", "main", wanted, COUNT_OF(wanted)) ||
           kernel_known(p, "conv_pool_stem", "main", wanted, COUNT_OF(wanted));
}

struct conv_tile stem_tile(const struct problem *p, const struct conv_args *a)
{
    return conv_best_tile(p, a, stem_columns(p, a), tile_known);
}

struct conv_packing stem_packing(const struct problem *p, const struct conv_tile *tile)
{
    return conv_tile_packing(p, tile, 1);
}

struct conv_stem_args stem_args(const struct problem *p, const struct conv_args *a,
                                const struct conv_tile *tile, int per_item)
{
    return (struct conv_stem_args){
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .c = a->c,
        .k = a->k,
        .in = {a->in[1], a->in[2]},
        .out = {a->out[1], a->out[2]},
        .ker = {a->ker[1], a->ker[2]},
        .stride = a->stride[1],
        .pad = {a->pad[1], a->pad[2]},
        .dil = {a->dil[1], a->dil[2]},
        .segments = (i32)ceil_div((size_t)a->out[2], (size_t)(tile->t * per_item)),
        .per_item = per_item,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
}

void stem_define(struct step *s, const struct problem *p, const struct conv_args *a,
                 const struct conv_tile *tile)
{
    step_define(s, "V", p->block);
    step_define(s, "T", tile->t);
    step_define(s, "KV", tile->kv);
    step_define(s, "SW", a->stride[2]);
    step_define(s, "AREA", AREA);
}

static bool applicable(const struct problem *p, struct why *why)
{
    if (!stem_possible(p, why))
        return false;
    const struct conv_args a = conv_args_of(p);
    const struct conv_tile tile = stem_tile(p, &a);
    DECIDE(p, tile);
    const int channels = p->in[0].shape.dim[1];
    PREFER(why, channels <= 4 || channels * 2 < p->block, "more channels fill channel blocks better");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct conv_tile tile;
    DECIDED(p, tile);
    return conv_packing_workspace(p, &a, stem_packing(p, &tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct conv_tile tile;
    DECIDED(p, tile);
    const int packed = emit_conv_packed(e, p, &a, stem_packing(p, &tile));
    int per_item = (int)ceil_div((size_t)a.out[2], (size_t)tile.t);
    while (conv_columns(&a, per_item * tile.t) > stem_columns(p, &a))
        per_item--;
    const struct conv_stem_args args = stem_args(p, &a, &tile, per_item);
    struct step *s =
        emit_step(e, "conv_stem", "main", (size_t)a.n * (size_t)a.out[1] * (size_t)args.segments, 1);
    stem_define(s, p, &a, &tile);
    blocked_conv_step(s, p, packed, &args, sizeof args);
}

const struct algo_def algo_conv_stem = {
    .name = "stem",
    .doc = "register tiles from row-major maps of few channels to channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_ROW_MAJOR,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
