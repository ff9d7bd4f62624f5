/* conv_winograd: F(4x4, 3x3), F(2x2, 3x3), F(3x3, 4x4) and F(2x2, 5x5) over channel blocks, for CPU devices; see
 * kernels/conv_cpu/conv_winograd.cl. */
#include "algos/conv_cpu/conv_winograd.h"

#include "algos/conv_cpu/conv_amx.h"
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"

#include <stdio.h>

/* Transforms make at most 31 * 31 times as much of it. */
#define LARGEST_FILTER 0x1p117f

enum {
    FUSED_ITEMS_PER_UNIT = 8, /* few: each part of the workspace is used many times */
    FRESH_BLOCKS = 5,         /* blocks of tiles whose products stay in a core's cache */
    MASKED = 32,              /* channels of a mask, one float of the gap behind a matrix of the workspace */
};

/* F(m x m, r x r), and what its transforms take for a tile, in multiply-adds at the peak: from measurements, 250 and 200
 * cycles for a block of channels and of filters of F(4x4, 3x3). */
struct filtering {
    int m, r;
    double in, out;
};

const struct filtering winograd_f4x3 = {4, 3, 496.0, 400.0}, winograd_f2x3 = {2, 3, 124.0, 100.0};
static const struct filtering f3x4 = {3, 4, 496.0, 320.0};
static const struct filtering f2x5 = {2, 5, 496.0, 240.0};

/* How a problem is cut. */
struct cut {
    int m, r, t, kv;
    int points;                             /* (m + r - 1)^2 products */
    size_t tiles, tile_blocks, tile_groups; /* of the batch; blocks of t tiles; these times groups */
    int c_lanes, k_lanes;                   /* of a group, with those before it in its first block */
    size_t c_blocks, k_blocks;              /* that hold these */
    size_t part_bytes, filter_bytes;        /* of a block of tiles of a group; of all filters */
    size_t ranges;                          /* work-items a group when fused, else 0 */
    size_t slice;                           /* blocks of tiles a step when not fused */
    bool spread;                            /* dilated filters, or volumes */
    bool fresh;    /* the filters of a slice are transformed by the step that uses them: */
    double uneven; /* of cores that share filters, the busiest one's over the mean */
};

/* Tiles and vectors of filters in a register tile, and the measured time of a multiply-add over that of the first. */
static const struct conv_tile wide_tiles[] = {{14, 2, 1.0}, {10, 2, 1.06}, {8, 2, 1.12}, {4, 4, 1.15}},
                              narrow_tile = {6, 2, 1.0};

/* The kernel of a tile that reads transformed filters, or that transforms them (`fresh`). */
static bool tile_known(const struct problem *p, const struct filtering *f, const struct conv_tile *tile,
                       bool fresh)
{
    const struct kernel_define wanted[] = {{"M", f->m}, {"R", f->r}, {"T", tile->t}, {"KV", tile->kv}};
    return kernel_known(p, "conv_winograd", fresh ? "fresh" : "main", wanted, COUNT_OF(wanted));
}

static struct conv_tile best_tile(const struct problem *p, const struct filtering *f, size_t tiles,
                                  size_t filters)
{
    struct conv_tile best = narrow_tile;
    bool best_known = false;
    double least = 0.0;
    for (int i = 0; p->block == 16 && i < COUNT_OF(wide_tiles); i++) {
        const struct conv_tile *w = &wide_tiles[i];
        const size_t wide = (size_t)(w->kv * p->block);
        const double work = w->cost * (double)(round_up(tiles, (size_t)w->t) * round_up(filters, wide));
        const bool known = tile_known(p, f, w, false) || tile_known(p, f, w, true);
        if (i == 0 || (known && !best_known) || (known == best_known && work < least)) {
            least = work;
            best = *w;
            best_known = known;
        }
    }
    return best;
}

static double memory_macs(const struct problem *p)
{
    return MEMORY_BYTE_MACS * profile_memory(p->device);
}

/* Both transforms in one step, or the filters' with the products, or the input's in a step of its own for every slice of
 * tiles. Stored filters of layers that are `far` come from memory, and from the shared cache again for every block of tiles. */
static void choose_form(struct cut *c, const struct problem *p, const struct conv_args *a,
                        const struct filtering *f)
{
    const struct conv_tile tile = {c->t, c->kv, 1.0};
    const bool no_fresh =
                   a->ker[0] > 1 || conv_groups_in_parts(a, p->block) || !tile_known(p, f, &tile, true),
               only_fresh = !no_fresh && !tile_known(p, f, &tile, false);
    const size_t units = device_units(p->device), blocks = c->k_blocks * (size_t)a->groups;
    const double products = (double)(c->tile_blocks * (size_t)c->t) * (double)c->filter_bytes / sizeof(float);
    const double from_memory = memory_macs(p) * (double)c->filter_bytes;
    /* cores wait a quarter at most */
    const bool even = ceil_div(c->tile_groups, units) * units * 3 <= c->tile_groups * 4;
    const bool near = c->filter_bytes <= WINOGRAD_NEAR_FILTERS_BYTES;
    c->uneven = (double)(round_up(blocks, units)) / (double)blocks;
    const bool far = c->filter_bytes > WINOGRAD_LARGE_FILTERS_BYTES && c->tile_blocks <= FRESH_BLOCKS &&
                     c->uneven < WINOGRAD_UNEVEN_RATIO;
    const size_t fresh_slices = ceil_div(c->tile_blocks, FRESH_BLOCKS);
    const double transforms =
        (double)fresh_slices * WINOGRAD_FILTER_VALUE_MACS * (double)c->filter_bytes / sizeof(float);
    const bool saving = p->fresh_filters && !no_fresh;
    if (!saving && !far && !only_fresh && c->part_bytes <= WINOGRAD_FUSED_PART_BYTES &&
        ((c->tile_groups >= 3 * units && products >= from_memory) || (even && near))) {
        const size_t wanted = ceil_div(FUSED_ITEMS_PER_UNIT * units, (size_t)a->groups);
        c->ranges = ceil_div(c->tile_blocks, ceil_div(c->tile_blocks, wanted));
        return;
    }
    const double stored = products > from_memory ? products : from_memory;
    c->fresh = saving || only_fresh || (!no_fresh && (far || (products + transforms) * c->uneven < stored));
    if (c->fresh) {
        c->slice = ceil_div(c->tile_blocks, fresh_slices);
    } else {
        const size_t bytes =
            c->filter_bytes > WINOGRAD_LARGE_FILTERS_BYTES ? 2 * WINOGRAD_SLICE_BYTES : WINOGRAD_SLICE_BYTES;
        const size_t slices = ceil_div(c->tile_groups * c->part_bytes, bytes);
        c->slice = ceil_div(c->tile_blocks, slices < c->tile_blocks ? slices : c->tile_blocks);
    }
}

/* Tiles along a dimension: each phase of a dilated filter has its own. */
static size_t tiles_along(const struct conv_args *a, int d, int m)
{
    const int phases = a->dil[d] < a->out[d] ? a->dil[d] : a->out[d];
    return (size_t)phases * ceil_div(ceil_div((size_t)a->out[d], (size_t)phases), (size_t)m);
}

size_t winograd_tiles(const struct conv_args *a, int m)
{
    return (size_t)a->n * (size_t)a->out[0] * tiles_along(a, 1, m) * tiles_along(a, 2, m);
}

static struct cut cut_of(const struct problem *p, const struct conv_args *a, const struct filtering *f)
{
    const size_t block = (size_t)p->block;
    struct cut c = {
        .m = f->m,
        .r = f->r,
        .points = (f->m + f->r - 1) * (f->m + f->r - 1),
        .c_lanes = conv_lane_span(a->groups, a->c / a->groups, p->block),
        .k_lanes = conv_lane_span(a->groups, a->k / a->groups, p->block),
        .spread = conv_is_volume(a) || a->dil[1] > 1 || a->dil[2] > 1,
    };
    c.tiles = winograd_tiles(a, f->m);
    const struct conv_tile tile = best_tile(p, f, c.tiles, (size_t)c.k_lanes);
    c.t = tile.t;
    c.kv = tile.kv;
    c.tile_blocks = ceil_div(c.tiles, (size_t)c.t);
    c.tile_groups = c.tile_blocks * (size_t)a->groups;
    c.c_blocks = ceil_div((size_t)c.c_lanes, block) * (size_t)a->ker[0];
    c.k_blocks = ceil_div((size_t)c.k_lanes, (size_t)c.kv * block);
    c.part_bytes = sizeof(float) * (size_t)c.points * (c.c_blocks * (size_t)c.t + 1) * block;
    c.filter_bytes = sizeof(float) * (size_t)c.points * (size_t)a->groups * c.k_blocks * c.c_blocks * block *
                     ((size_t)c.kv * block);
    choose_form(&c, p, a, f);
    return c;
}

/* What the products and the filters that they read take without channels that are known to be zero under a register tile. */
static double computed_share(const struct problem *p)
{
    const bool skips = p->skip && p->zeros.known && p->in[1].constant;
    return skips ? 1.0 - WINOGRAD_SKIPPED_RATIO * (double)p->zeros.tile : 1.0;
}

/* Time in multiply-adds at the peak, from measurements: products, or as fast as the filters come from memory,
 * and the transforms; all of it corrected by what was measured of the processor. */
static double cost_of(const struct problem *p, const struct conv_args *a, const struct filtering *f,
                      const struct cut *cut)
{
    const struct cut c = *cut;
    const bool parts = conv_groups_in_parts(a, p->block);
    const size_t block = (size_t)p->block, groups = (size_t)a->groups;
    /* blocks that groups share are transformed for each, and only their own channels are multiplied */
    const double in =
                     (double)(parts ? groups * round_up((size_t)c.c_lanes, block) : (size_t)a->c) * a->ker[0],
                 out = (double)(parts ? groups * round_up((size_t)c.k_lanes, block) : (size_t)a->k),
                 used = parts ? a->c * a->ker[0] / in : 1.0;
    const double tiles = (double)(c.tile_blocks * (size_t)c.t), filters = used * (double)c.filter_bytes;
    const double steps = c.ranges ? 1.0 : 2.0 * (double)ceil_div(c.tile_blocks, c.slice);
    double products = tiles * filters / sizeof(float), memory = memory_macs(p) * filters;
    if (c.fresh) {
        products += steps / 2.0 * WINOGRAD_FILTER_VALUE_MACS * filters / sizeof(float);
        products *= c.uneven;
        memory *= (double)(c.r * c.r) / c.points;
    }
    products /= WINOGRAD_PEAK_RATIO;
    const double all = computed_share(p) * (products > memory ? products : memory) +
                       tiles * (f->in * in + f->out * out) +
                       (steps - 1.0) * WINOGRAD_STEP_MACS * (double)device_units(p->device);
    return all * profile_factor(p->device, PROFILE_winograd_small, conv_macs(a));
}

double winograd5_cost(const struct problem *p, const struct conv_args *a)
{
    const struct cut c = cut_of(p, a, &f2x5);
    return cost_of(p, a, &f2x5, &c);
}

/* Share of a dilated filter's taps that meet the image: tiles of the direct kernel leave out the others. */
static double inside_ratio(const struct conv_args *a)
{
    double ratio = 1.0;
    for (int d = 1; d < 3; d++) {
        int64_t met = 0;
        for (int t = 0; t < a->ker[d] && a->dil[d] > 1; t++) {
            const int from = a->pad[d] - t * a->dil[d], past = from + a->in[d];
            const int first = from > 0 ? from : 0, last = past < a->out[d] ? past : a->out[d];
            met += last > first ? last - first : 0;
        }
        if (a->dil[d] > 1)
            ratio *= (double)met / ((double)a->out[d] * a->ker[d]);
    }
    return ratio;
}

bool winograd_applicable(const struct problem *p, struct why *why, const struct filtering *f)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    const bool fits = a.ker[1] == f->r && a.ker[2] == f->r;
    REQUIRE(why, fits || f->r != 3, "minimal filtering is for 3x3 filters");
    REQUIRE(why, fits || f->r != 4, "F(3x3, 4x4) is for 4x4 filters");
    REQUIRE(why, fits || f->r != 5, "F(2x2, 5x5) is for 5x5 filters");
    REQUIRE(why, a.stride[1] == 1 && a.stride[2] == 1, "minimal filtering is for stride 1");
    const int summed = a.c / a.groups * a.ker[0];
    REQUIRE(why, f->m < 3 || summed <= MOST_OF_F4, TOO_MANY_CHANNELS);
    const struct cut c = cut_of(p, &a, f);
    REQUIRE(why, c.c_blocks <= (size_t)(MASKED * c.points), "more channels than the workspace has masks for");
    DECIDE(p, c);
    PREFER(why, a.c >= 8, "fewer than 8 channels leave most of a block empty");
    const double cost = cost_of(p, &a, f, &c);
    const bool pays = cost < WINOGRAD_WORTH_RATIO * inside_ratio(&a) * blocked_whole_cost(p, &a);
    const bool again =
        c.fresh && p->fresh_filters; /* they are split in every run, too, where tiles multiply */
    PREFER(why, pays && !(again && amx_conv_effort(p) < blocked_effort(&a, cost)),
           "too few tiles or filters to pay for the transforms");
    return true;
}

static double effort_of(const struct problem *p, const struct filtering *f)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    return blocked_effort(&a, cost_of(p, &a, f, &c));
}

static size_t transformed_bytes(const struct cut *c, const struct conv_args *a)
{
    return c->part_bytes * (size_t)a->groups * (c->ranges ? c->ranges : c->slice);
}

struct conv_packing winograd_raw_packing(const struct problem *p, int kv)
{
    return (struct conv_packing){.block = kv * p->block, .c_block = 1};
}

size_t winograd_workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    const size_t filters = c.fresh             ? conv_packing_workspace(p, &a, winograd_raw_packing(p, c.kv))
                           : p->in[1].constant ? 0
                                               : c.filter_bytes;
    return transformed_bytes(&c, &a) + filters;
}

static void define_filtering(struct step *s, const struct problem *p, const struct cut *c)
{
    step_define(s, "M", c->m);
    step_define(s, "R", c->r);
    step_define(s, "SPREAD", c->spread);
    step_define(s, "V", p->block);
}

static int emit_filters(struct emit *e, const struct problem *p, const struct cut *c,
                        const struct conv_winograd_args *args)
{
    char name[96];
    snprintf(name, sizeof name, "conv_winograd m%d r%d d%d g%d k%d c%d b%d x %d%s", c->m, c->r, args->ker_d,
             args->groups, args->kg, args->cg, c->kv, p->block, args->turned ? " turned" : "");
    struct step *setup;
    const size_t groups = (size_t)args->groups * c->k_blocks * c->c_blocks * (size_t)p->block;
    const int view =
        emit_packed(e, &p->in[1], name, c->filter_bytes, "conv_winograd", "pack", groups, 1, &setup);
    if (setup) {
        define_filtering(setup, p, c);
        step_define(setup, "KV", c->kv);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, args, sizeof *args);
        step_cost(setup, 0.0, (double)c->filter_bytes * (1.0 + (double)(c->r * c->r) / c->points));
    }
    return view;
}

/* What the steps of a layer share: y is p->out, or what is pooled of it. */
struct buffers {
    const struct cut *cut;
    const struct operand *y;
    int transformed, filters; /* views */
};

/* The step that writes the output: from `transformed`, or with the input's transforms when it is fused. */
static struct step *emit_products(struct emit *e, const struct problem *p, const struct buffers *buffers,
                                  const struct conv_winograd_args *args, size_t groups)
{
    const struct cut *c = buffers->cut;
    struct step *s = emit_step(e, "conv_winograd", c->fresh ? "fresh" : "main", groups, 1);
    define_filtering(s, p, c);
    step_define(s, "T", c->t);
    step_define(s, "KV", c->kv);
    if (c->fresh)
        step_define(s, "TILE_BLOCKS", FRESH_BLOCKS);
    else
        step_read(s, c->ranges ? p->in[0].view : VIEW_NONE);
    if (c->ranges)
        step_update(s, buffers->transformed);
    else
        step_read(s, buffers->transformed);
    step_read(s, buffers->filters);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, buffers->y->view);
    step_args(s, args, sizeof *args);
    conv_cost(s, p);
    s->bytes -= 4.0 * (double)(shape_count(&p->out[0].shape) - shape_count(&buffers->y->shape));
    return s;
}

static void emit_slice(struct emit *e, const struct problem *p, const struct buffers *buffers,
                       struct conv_winograd_args *args, size_t first_block)
{
    const struct cut *c = buffers->cut;
    const size_t left = c->tile_blocks - first_block, blocks = left < c->slice ? left : c->slice;
    const size_t pieces = ceil_div(c->c_blocks, (size_t)args->c_step);
    args->first_tile = (i32)(first_block * (size_t)c->t);
    args->tiles = (i32)(blocks * (size_t)c->t);
    if (args->first_tile + args->tiles > (i32)c->tiles)
        args->tiles = (i32)c->tiles - args->first_tile;
    const double share = (double)args->tiles / (double)c->tiles;

    struct step *s = emit_step(e, "conv_winograd", "in", blocks * (size_t)args->groups * pieces, 1);
    define_filtering(s, p, c);
    if (!p->in[1].constant) /* a program with the step that packs them */
        step_define(s, "KV", c->kv);
    step_read(s, p->in[0].view);
    step_write(s, buffers->transformed);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0,
              share * 4.0 * (double)shape_count(&p->in[0].shape) +
                  (double)(blocks * (size_t)args->groups * c->part_bytes));
    const size_t filter_blocks = (size_t)args->groups * c->k_blocks;
    s = emit_products(e, p, buffers, args, c->fresh ? filter_blocks : blocks * filter_blocks);
    step_cost(s, share * s->macs, share * s->bytes);
}

struct conv_winograd_args winograd_args_of(const struct problem *p, const struct conv_args *a, int m, int t,
                                           int kv)
{
    const int kg = a->k / a->groups, cg = a->c / a->groups;
    const size_t filters = (size_t)conv_lane_span(a->groups, kg, p->block), wanted = (size_t)(kv * p->block),
                 channels = (size_t)conv_lane_span(a->groups, cg, p->block);
    return (struct conv_winograd_args){
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .w_k = a->w_k,
        .k = a->k,
        .kg = kg,
        .cg = cg,
        .groups = a->groups,
        .c_blocks = (i32)ceil_div(channels, (size_t)p->block) * a->ker[0],
        .k_blocks = (i32)ceil_div(filters, wanted),
        .in = {a->in[1], a->in[2]},
        .out = {a->out[1], a->out[2]},
        .pad = {a->pad[1], a->pad[2]},
        .dil = {a->dil[1], a->dil[2]},
        .in_d = a->in[0],
        .out_d = a->out[0],
        .ker_d = a->ker[0],
        .stride_d = a->stride[0],
        .pad_d = a->pad[0],
        .dil_d = a->dil[0],
        .tiles_high = (i32)tiles_along(a, 1, m),
        .tiles_wide = (i32)tiles_along(a, 2, m),
        .tiles = (i32)winograd_tiles(a, m),
        .t = t,
        .turned = p->in[1].turned,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
}

void emit_winograd(const struct problem *p, struct emit *e, const struct operand *y, int pool)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    struct conv_winograd_args args = winograd_args_of(p, &a, c.m, c.t, c.kv);
    args.dst_n = y->batch_stride;
    args.c_step = MASKED / p->block;
    args.skip = conv_skips_zeros(p, e, LARGEST_FILTER);
    args.t_step = (i32)(c.ranges ? ceil_div(c.tile_blocks, c.ranges) * (size_t)c.t : 0);
    args.pool = pool;
    struct buffers buffers = {.cut = &c, .y = y};
    buffers.filters =
        c.fresh ? emit_conv_packed(e, p, &a, winograd_raw_packing(p, c.kv)) : emit_filters(e, p, &c, &args);
    buffers.transformed = emit_workspace(e, transformed_bytes(&c, &a));
    if (c.ranges)
        emit_products(e, p, &buffers, &args, c.ranges * (size_t)a.groups);
    else
        for (size_t block = 0; block < c.tile_blocks; block += c.slice)
            emit_slice(e, p, &buffers, &args, block);
}

static void emit(const struct problem *p, struct emit *e)
{
    emit_winograd(p, e, &p->out[0], 0);
}

/* One algorithm a filtering. */
#define WINOGRAD_ALGO(algo, filtering, tile, class, percent)                \
    static bool applicable_##algo(const struct problem *p, struct why *why) \
    {                                                                       \
        return winograd_applicable(p, why, &filtering);                     \
    }                                                                       \
    static double effort_##algo(const struct problem *p)                    \
    {                                                                       \
        return effort_of(p, &filtering);                                    \
    }                                                                       \
    const struct algo_def algo_conv_##algo = {                              \
        .name = #algo,                                                      \
        .doc = "Winograd's " tile " over channel blocks",                   \
        .devices = DEVICES_CPU,                                             \
        .error = class,                                                     \
        .bound = BOUND_NORMWISE,                                            \
        .deterministic = true,                                              \
        .stores_in_place = true,                                            \
        .turned = true,                                                     \
        .effort = percent,                                                  \
        .effort_of = effort_##algo,                                         \
        .src = LAYOUT_BLOCKED,                                              \
        .dst = LAYOUT_BLOCKED,                                              \
        .applicable = applicable_##algo,                                    \
        .workspace = winograd_workspace,                                    \
        .emit = emit,                                                       \
    }
WINOGRAD_ALGO(winograd, winograd_f4x3, "F(4x4, 3x3)", ERROR_HIGHEST, WINOGRAD_EFFORT_PERCENT);
WINOGRAD_ALGO(winograd2, winograd_f2x3, "F(2x2, 3x3)", ERROR_STRICT, WINOGRAD2_EFFORT_PERCENT);
WINOGRAD_ALGO(winograd4, f3x4, "F(3x3, 4x4)", ERROR_HIGHEST, WINOGRAD4_EFFORT_PERCENT);
WINOGRAD_ALGO(winograd5, f2x5, "F(2x2, 5x5)", ERROR_HIGHEST, WINOGRAD5_EFFORT_PERCENT);
