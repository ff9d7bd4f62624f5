/* conv_blocked: register tiles over maps with channels in blocks, for CPU devices; see kernels/conv_blocked.cl. */
#include "algos/conv_common.h"

/* Register tiles, with the measured time of a multiply-add over that of the first: what 32 registers of 16 floats hold, and
 * 16 of 8. Two vectors of filters keep the loads behind the multiply-adds; 7 columns suit maps of 7 x 7. */
struct tile {
    int t, kv;
    double cost;
};
static const struct tile wide_tiles[] = {{14, 2, 1.0}, {7, 2, 1.05}, {28, 1, 1.2}, {7, 1, 1.5}};
static const struct tile narrow_tiles[] = {{14, 1, 1.0}, {7, 1, 1.1}};

enum {
    MAX_COLUMNS = 128,     /* of the kernel's private row */
    ITEMS_PER_UNIT = 32,   /* work-items for each core to take its share in */
};

/* As conv_args_of, but a pointwise problem is one long row, so that small maps fill the tiles. */
static struct conv_args blocked_args(const struct problem *p)
{
    struct conv_args a = conv_args_of(p);
    if (conv_is_pointwise(&a)) {
        a.in[2] = a.out[2] = a.in[1] * a.in[2];
        a.in[1] = a.out[1] = 1;
    }
    return a;
}

static int columns(const struct conv_args *a, int t)
{
    return (t - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
}

/* The tile that takes least time, pixels and filters beyond the edges included; the first of equals. */
static struct tile best_tile(const struct problem *p, const struct conv_args *a)
{
    const struct tile *tiles = p->block == 16 ? wide_tiles : narrow_tiles, *best = NULL;
    const int count = p->block == 16 ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        const struct tile *tile = &tiles[i];
        const double work = tile->cost * (double)ceil_div((size_t)a->out[2], (size_t)tile->t) * tile->t *
                            conv_blocks(a, tile->kv * p->block) * tile->kv;
        if (columns(a, tile->t) <= MAX_COLUMNS && (!best || work < least)) {
            least = work;
            best = tile;
        }
    }
    return *best;
}

static struct conv_packing packing_of(const struct problem *p, const struct tile *tile)
{
    return (struct conv_packing){.block = tile->kv * p->block, .c_block = p->block};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.groups == 1 || (a.c / a.groups % p->block == 0 && a.k / a.groups % p->block == 0),
            "groups must be whole channel blocks");
    REQUIRE(why, columns(&a, 7) <= MAX_COLUMNS, "the input row of a tile must fit 128 columns");
    PREFER(why, a.c >= 8, "fewer than 8 channels leave most of a block empty");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = blocked_args(p);
    const struct tile tile = best_tile(p, &a);
    return conv_packing_workspace(p, &a, packing_of(p, &tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = blocked_args(p);
    const struct tile tile = best_tile(p, &a);
    const int packed = emit_conv_packed(e, p, &a, packing_of(p, &tile));
    const size_t blocks = (size_t)conv_blocks(&a, tile.kv * p->block) * (size_t)a.n;
    const size_t tiles = (size_t)a.out[1] * ceil_div((size_t)a.out[2], (size_t)tile.t);
    const size_t items = (size_t)ITEMS_PER_UNIT * (p->device->compute_units ? p->device->compute_units : 1);
    const size_t per_item = ceil_div(tiles, items > blocks ? items / blocks : 1);
    const struct conv_blocked_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .n = a.n,
        .k = a.k,
        .kg = a.k / a.groups,
        .c_blocks = (i32)ceil_div((size_t)(a.c / a.groups), (size_t)p->block),
        .k_blocks = conv_blocks(&a, tile.kv * p->block) / a.groups,
        .in = {a.in[1], a.in[2]},
        .out = {a.out[1], a.out[2]},
        .ker = {a.ker[1], a.ker[2]},
        .stride = a.stride[1],
        .pad = {a.pad[1], a.pad[2]},
        .dil = {a.dil[1], a.dil[2]},
        .chunks = (i32)ceil_div(tiles, per_item),
        .per_item = (i32)per_item,
        .p0 = a.p0,
        .p1 = a.p1,
    };
    const bool inside = a.pad[2] == 0 && (a.out[2] - 1) * a.stride[2] + (a.ker[2] - 1) * a.dil[2] < a.in[2];
    struct step *s = emit_step(e, "conv_blocked", "main", blocks * (size_t)args.chunks, 1);
    step_define(s, "V", p->block);
    step_define(s, "T", tile.t);
    step_define(s, "KV", tile.kv);
    step_define(s, "SW", a.stride[2]);
    step_define(s, "DIRECT", inside && a.out[2] >= tile.t);
    step_define(s, "ROW", columns(&a, tile.t) <= 48 ? 48 : MAX_COLUMNS);
    step_read(s, p->in[0].slot);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].slot);
    step_args(s, &args, sizeof args);
    conv_cost(s, p);
}

const struct algo_def algo_conv_blocked = {
    .name = "blocked",
    .doc = "register tiles of row pixels x filters over channel blocks (CPU devices)",
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = FORM_BLOCKED,
    .dst = FORM_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
