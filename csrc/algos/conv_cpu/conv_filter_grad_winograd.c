/* conv_filter_grad_winograd: F(3x3, 4x4), and of phases at stride 2 F(2x2, 4x4), over channel blocks, for CPU devices; see
 * kernels/conv_cpu/conv_filter_grad_winograd.cl. */
#include "algos/conv_cpu/conv_filter_grad_parts.h"
#include "algos/cost/cost.h"

enum {
    SIDE = 4,    /* of a tile of dy */
    POINTS = 36, /* of F(3x3, 4x4), which the cost of transforms is of */
    PHASE_POINTS = 25,
    RUN = 16,         /* as in the kernel */
    MOST_TILES = 512, /* of a slice, so that no sum has more terms: its rounding errors grow with them */
};

struct cut {
    struct filter_tile tile;
    size_t tiles, slices; /* of the batch; of these */
    size_t v_bytes, sums_bytes;
};

/* Of x, whose channels have transforms of their own in each. */
static size_t phases_of(const struct conv_args *a)
{
    return (size_t)(a->stride[1] * a->stride[2]);
}

/* Products of a tile, for a channel of a phase and a filter. */
static size_t points_of(const struct conv_args *a)
{
    return a->stride[1] == 1 ? POINTS : PHASE_POINTS;
}

static size_t blocks_of(const struct problem *p, int channels)
{
    return (size_t)blocked_count(p, channels);
}

static struct filter_tile best_tile(const struct problem *p, const struct conv_args *a)
{
    int count;
    const struct filter_tile *tiles = filter_tiles(p, &count);
    struct filter_tile best = tiles[0];
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        const double work = tiles[i].cost * (double)round_up((size_t)a->c, (size_t)tiles[i].ct) *
                            (double)round_up((size_t)a->k, (size_t)(tiles[i].kv * p->block));
        if (p->block % tiles[i].ct == 0 && (i == 0 || work < least)) {
            least = work;
            best = tiles[i];
        }
    }
    return best;
}

static struct filter_grad_winograd_args args_of(const struct problem *p, const struct conv_args *a,
                                                const struct filter_tile *tile)
{
    return (struct filter_grad_winograd_args){
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .w_k = a->w_k,
        .c = a->c,
        .k = a->k,
        .c_blocks = (i32)blocks_of(p, a->c),
        .k_blocks = (i32)blocks_of(p, a->k),
        .c_tiles = (i32)ceil_div((size_t)a->c, (size_t)tile->ct),
        .k_tiles = (i32)ceil_div((size_t)a->k, (size_t)(tile->kv * p->block)),
        .in = {a->in[1], a->in[2]},
        .out = {a->out[1], a->out[2]},
        .pad = {a->pad[1], a->pad[2]},
        .tiles_high = (i32)ceil_div((size_t)a->out[1], SIDE),
        .tiles_wide = (i32)ceil_div((size_t)a->out[2], SIDE),
    };
}

/* Slices stay in the shared cache, but where adding to all sums once more would take more. */
static struct cut cut_of(const struct problem *p, const struct conv_args *a)
{
    struct cut c = {.tile = best_tile(p, a)};
    const struct filter_grad_winograd_args args = args_of(p, a, &c.tile);
    const size_t point = sizeof(float) * points_of(a), lanes = (size_t)p->block, phases = phases_of(a);
    const size_t each = point * (phases * blocks_of(p, a->c) + blocks_of(p, a->k)) * lanes;
    c.tiles = (size_t)a->n * (size_t)(args.tiles_high * args.tiles_wide);
    c.sums_bytes = point * (phases * (size_t)args.c_tiles * (size_t)args.k_tiles *
                                (size_t)(c.tile.ct * c.tile.kv) * lanes +
                            lanes);
    const size_t bytes = c.sums_bytes > FILTER_GRAD_SLICE_BYTES ? c.sums_bytes : FILTER_GRAD_SLICE_BYTES;
    size_t most = bytes / each;
    most = most < MOST_TILES ? most : MOST_TILES;
    c.slices = ceil_div(c.tiles, most > 0 ? most : 1);
    c.v_bytes = ceil_div(c.tiles, c.slices) * each + point * lanes;
    return c;
}

/* In multiply-adds at the peak. */
static double cost_of(const struct conv_args *a, const struct cut *c)
{
    const double weights = (double)c->sums_bytes / sizeof(float);
    return (double)c->tiles * weights * c->tile.cost / FILTER_GRAD_PEAK_RATIO +
           (double)c->tiles * FILTER_GRAD_TILE_MACS * (double)points_of(a) / POINTS *
               ((double)phases_of(a) * a->c + a->k) +
           (double)c->slices * FILTER_GRAD_SUM_MACS * weights;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_filter_grad_args(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, conv_is_2d(p) && a.ker[1] == a.ker[2] && (a.ker[1] == 3 || a.ker[1] == 4),
            "minimal filtering is for 3x3 and 4x4 filters");
    REQUIRE(why, a.stride[1] == a.stride[2] && a.stride[1] <= 2 && a.ker[1] <= 2 + a.stride[1],
            "minimal filtering is for strides of 1 and 2, of 4x4 filters for 2");
    REQUIRE(why, a.dil[1] == 1 && a.dil[2] == 1 && a.groups == 1,
            "minimal filtering is for dilation 1 and one group");
    const struct cut c = cut_of(p, &a);
    DECIDE(p, c);
    PREFER(why, cost_of(&a, &c) < conv_macs(&a) / FILTER_GRAD_PEAK_RATIO,
           "too few tiles to pay for the transforms and the sums");
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct cut c;
    DECIDED(p, c);
    return c.v_bytes + c.sums_bytes;
}

static struct step *emit_one(struct emit *e, const struct problem *p, const struct cut *c, const char *entry,
                             size_t items)
{
    const struct conv_args a = conv_filter_grad_args(p);
    struct step *s = emit_step(e, "conv_filter_grad_winograd", entry, items, 1);
    step_define(s, "V", p->block);
    step_define(s, "STRIDE", a.stride[1]);
    step_define(s, "KER", a.ker[1]);
    step_define(s, "CT", c->tile.ct);
    step_define(s, "KV", c->tile.kv);
    return s;
}

static void emit_slice(struct emit *e, const struct problem *p, const struct cut *c,
                       struct filter_grad_winograd_args *args, int v, int sums)
{
    const struct conv_args a = conv_filter_grad_args(p);
    const double share = (double)args->tiles / (double)c->tiles;
    const double maps = (double)shape_count(&p->in[0].shape) + (double)shape_count(&p->in[1].shape);
    const size_t blocks = phases_of(&a) * (size_t)args->c_blocks + (size_t)args->k_blocks;
    struct step *s = emit_one(e, p, c, "in", blocks * ceil_div((size_t)args->tiles, RUN));
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, v);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0, share * sizeof(float) * maps + (double)c->v_bytes);
    s = emit_one(e, p, c, "main", points_of(&a) * (size_t)args->shares);
    step_read(s, v);
    if (args->begins)
        step_write(s, sums);
    else
        step_update(s, sums);
    step_args(s, args, sizeof *args);
    step_cost(s, share * conv_macs(&a), (double)c->v_bytes + (double)c->sums_bytes);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_filter_grad_args(p);
    struct cut c;
    DECIDED(p, c);
    struct filter_grad_winograd_args args = args_of(p, &a, &c.tile);
    const size_t wanted = ceil_div(filter_grad_items(p), points_of(&a));
    args.shares = (i32)wanted < args.k_tiles ? (i32)wanted : args.k_tiles;
    const int v = emit_workspace(e, c.v_bytes), sums = emit_workspace(e, c.sums_bytes);
    for (size_t i = 0; i < c.slices; i++) {
        args.first_tile = (i32)(c.tiles * i / c.slices);
        args.tiles = (i32)(c.tiles * (i + 1) / c.slices) - args.first_tile;
        args.begins = i == 0;
        emit_slice(e, p, &c, &args, v, sums);
    }
    struct step *s =
        emit_one(e, p, &c, "join", (size_t)(args.k_tiles * c.tile.kv) * phases_of(&a) * (size_t)args.c_tiles);
    step_read(s, sums);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    step_cost(s, 0.0, (double)c.sums_bytes + sizeof(float) * (double)shape_count(&p->out[0].shape));
}

const struct algo_def algo_conv_filter_grad_winograd = {
    .name = "winograd",
    .doc = "Winograd's F(3x3, 4x4), of phases at stride 2 F(2x2, 4x4), over channel blocks, slices of tiles "
           "added up in their order",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .second = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
