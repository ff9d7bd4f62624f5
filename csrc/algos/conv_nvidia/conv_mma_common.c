/* conv_mma_common.c: which tile, and between how many groups the depth is split, for kernels/conv_nvidia/conv_mma.cl
 * and its twin for Hopper, kernels/conv_nvidia/conv_wgmma.cl. */
#include "algos/conv_nvidia/conv_mma_common.h"
#include "algos/conv/conv_phases.h"
#include "algos/cost/cost.h"
#include "conv_cpu/conv_cpu_args.h"
#include "conv_nvidia/conv_nvidia_args.h"

#include <stdio.h>

#define UNIT 16 /* of depth: channels between taps are padded to a multiple */
#define MAX_SPLIT_K 16

/* What a group of `size` work-items computes, `wm` warps side by side along filters, `chunk` of depth between two
 * barriers. Times in ns, measured on an H200 with three products: `busy` what 16 of depth cost a
 * multiprocessor that has enough groups to be busy all the time, `alone` one that has a single group; `resident`
 * groups fit one; `wide` is the factor of both where pixels are copied in fours; `start` is what each group costs beside
 * that. */
struct mma_tile {
    enum mma_kernel kernel;
    short filters, pixels, size, wm, chunk, resident;
    float busy, alone, wide, start;
};
static const struct mma_tile tiles[] = {
    {MMA_AMPERE, 128, 128, 256, 2, 16, 1, 1220.0f, 1220.0f, 1.0f, 2800.0f},
    {MMA_AMPERE, 128, 64, 128, 2, 16, 2, 675.0f, 675.0f, 1.0f, 1400.0f},
    {MMA_AMPERE, 64, 128, 128, 1, 16, 2, 675.0f, 675.0f, 1.0f, 1400.0f},
    {MMA_AMPERE, 64, 64, 128, 2, 16, 3, 413.0f, 661.0f, 1.0f, 700.0f},
    {MMA_AMPERE, 32, 128, 128, 1, 16, 3, 413.0f, 661.0f, 1.0f, 700.0f},
    {MMA_AMPERE, 32, 64, 128, 1, 16, 5, 223.0f, 357.0f, 1.0f, 350.0f},
    {MMA_AMPERE, 64, 32, 128, 2, 16, 5, 223.0f, 357.0f, 1.0f, 350.0f},
    {MMA_AMPERE, 32, 32, 128, 2, 16, 7, 137.0f, 273.0f, 1.0f, 175.0f},
    {MMA_AMPERE, 64, 64, 128, 2, 32, 3, 304.0f, 395.0f, 1.0f, 700.0f},
    {MMA_AMPERE, 32, 64, 128, 1, 32, 5, 198.0f, 257.0f, 1.0f, 350.0f},
    {MMA_AMPERE, 64, 32, 128, 2, 32, 5, 198.0f, 257.0f, 1.0f, 350.0f},
    {MMA_AMPERE, 32, 32, 128, 2, 32, 7, 121.0f, 193.0f, 1.0f, 175.0f},
    {MMA_HOPPER, 128, 128, 384, 1, 16, 1, 520.0f, 500.0f, 1.0f, 3300.0f},
    {MMA_HOPPER, 64, 128, 384, 1, 16, 2, 400.0f, 530.0f, 1.0f, 2800.0f},
};
/* Of the time of three products: moving the operands takes the rest. */
static const float time_share[MMA_KERNELS][MMA_FLOAT32 + 1] = {
    [MMA_AMPERE] = {[MMA_HALF] = 0.6f, [MMA_TF32] = 0.9f, [MMA_FLOAT32] = 1.0f},
    [MMA_HOPPER] = {[MMA_HALF] = 0.64f, [MMA_TF32] = 0.7f, [MMA_FLOAT32] = 1.0f},
};

struct layout {
    int gather;        /* a GATHER_ name */
    int padded, depth; /* as in conv_mma_args */
};

bool mma_on_device(const struct problem *p, enum mma_kernel kernel)
{
    const struct device_traits traits = device_traits(p->device);
    return kernel == MMA_HOPPER ? traits.warpgroups : traits.tensor_cores;
}

static int whole_units(int channels)
{
    return (int)round_up((size_t)channels, UNIT);
}

bool mma_few_channels(const struct conv_args *a)
{
    const int cg = a->c / a->groups;
    return 3 * whole_units(cg) > 4 * cg && conv_taps(a) > 1;
}

static struct layout layout_of(const struct conv_args *a)
{
    const int cg = a->c / a->groups, padded = whole_units(cg), taps = conv_taps(a);
    const int64_t map = conv_map(a);
    if (mma_few_channels(a)) /* the padding would cost more than finding each position anew */
        return (struct layout){GATHER_POSITIONS, cg, whole_units(cg * taps)};
    const int gather = !conv_is_pointwise(a) ? GATHER_TAPS
                       : map == 1            ? GATHER_ROWS
                       : map % 4 == 0        ? GATHER_WIDE
                                             : GATHER_TAPS;
    return (struct layout){gather, padded, padded * taps};
}

unsigned mma_fp16(const struct conv_args *a)
{
    const int gather = layout_of(a).gather;
    if (conv_is_volume(a))
        return FP16_DST | FP16_ADD;
    return gather == GATHER_TAPS || gather == GATHER_WIDE ? FP16_CONV : FP16_DST | FP16_ADD;
}

static size_t tile_count(const struct conv_args *a, const struct mma_tile *t)
{
    return (size_t)conv_blocks(a, t->filters) * ceil_div(conv_pixels(a), (size_t)t->pixels);
}

/* Groups that a kernel has for so many tiles: one a multiprocessor where Hopper's takes several, else one a tile. */
static size_t at_once(const struct problem *p, const struct layout *l, const struct mma_tile *t, size_t all)
{
    const bool wide = l->gather == GATHER_WIDE || l->gather == GATHER_ROWS;
    const bool several = t->kernel == MMA_HOPPER && t->resident == 1 && wide;
    const size_t most = several ? p->device->compute_units : all;
    return all < most ? all : most;
}

/* Filters that a tile's packing holds together. */
static int packed_block(const struct mma_tile *t)
{
    return t->kernel == MMA_HOPPER ? t->filters : 16;
}

static size_t packed_count(const struct conv_args *a, const struct layout *l, const struct mma_tile *t)
{
    const size_t block = (size_t)packed_block(t);
    return block * (size_t)conv_blocks(a, (int)block) * (size_t)l->depth;
}

/* Whether float32 values are sums of two halves, scaled by powers of two for each filter and each depth of a block, and not of two tf32
 * values. */
static bool split_into_halves(const struct mma_tile *t, enum mma_products products)
{
    return t->kernel == MMA_HOPPER && products == MMA_FLOAT32;
}

static size_t packed_bytes(const struct conv_args *a, const struct layout *l, const struct mma_tile *t,
                           enum mma_products products)
{
    const size_t blocks = (size_t)conv_blocks(a, packed_block(t));
    const size_t scales = split_into_halves(t, products)
                              ? blocks * (size_t)(l->depth / UNIT * DEPTH_GAINS + packed_block(t))
                              : 0;
    return (products == MMA_HALF ? sizeof(uint16_t) : sizeof(float)) * packed_count(a, l, t) +
           sizeof(float) * scales;
}

enum mma_products mma_cheapest(const struct problem *p)
{
    return p->precision >= CLCNN_PRECISION_MEDIUM ? MMA_HALF
           : p->precision >= CLCNN_PRECISION_HIGH ? MMA_TF32
                                                  : MMA_FLOAT32;
}

static size_t tile_bytes(const struct mma_tile *t)
{
    return sizeof(float) * (size_t)(t->filters * t->pixels);
}

/* Whether the last group of a tile adds up the partial sums of all (the fixup), or a step of its own does (the reduce), in
 * which all multiprocessors take part. This is what tiles are chosen by, whether or not there will be chains, so that
 * both forms of a plan have the same bits. */
static bool fixup_pays(const struct conv_args *a, const struct mma_tile *t, int split_k)
{
    const float fixup = MMA_FIXUP_NS + (float)(tile_bytes(t) * (size_t)split_k) / MMA_FIXUP_BYTES_PER_NS;
    return split_k > 1 &&
           (t->kernel == MMA_AMPERE ||
            fixup < MMA_SUM_LAUNCH_NS + (float)conv_split_k_bytes(a, split_k) / MMA_SUM_BYTES_PER_NS);
}

/* Scratch of a split depth: whole tiles where the last group adds them up, else results. */
static size_t split_k_bytes(const struct conv_args *a, const struct mma_tile *t, int split_k)
{
    return fixup_pays(a, t, split_k) ? tile_bytes(t) * tile_count(a, t) * (size_t)split_k
                                     : conv_split_k_bytes(a, split_k);
}

/* Memory has a price where it is no longer small beside what a plan holds anyway, or networks whose activations are few would
 * take more of it for a few microseconds (AlexNet at batch 1: 5.9 MiB instead of 1.6). */
static float price_beyond(size_t bytes, size_t free)
{
    return bytes > free ? (float)(bytes - free) / MMA_PRICED_BYTES_PER_NS : 0.0f;
}

float mma_memory_price(const struct problem *p, size_t scratch, size_t filters)
{
    return price_beyond(scratch, p->spare > MMA_FREE_SCRATCH_BYTES ? p->spare : MMA_FREE_SCRATCH_BYTES) +
           price_beyond(filters, p->arena / MMA_FREE_FILTERS_RATIO);
}

/* What adding up partial sums takes, in ns. */
static float split_k_time(const struct conv_args *a, const struct mma_tile *t, int split_k)
{
    return split_k == 1 ? 0.0f
           : fixup_pays(a, t, split_k)
               ? MMA_FIXUP_NS + (float)(tile_bytes(t) * (size_t)split_k) / MMA_FIXUP_BYTES_PER_NS
               : MMA_SUM_LAUNCH_NS + (float)conv_split_k_bytes(a, split_k) / MMA_SUM_BYTES_PER_NS;
}

/* Expected time in ns when every group of `split_k` times the tiles takes `share` chunks. */
static float time_of(const struct conv_args *a, const struct layout *l, const struct mma_tile *t, int split_k,
                     int share, struct mma_form form, unsigned multiprocessors)
{
    const size_t each = ceil_div(tile_count(a, t) * (size_t)split_k, multiprocessors);
    const float products = time_share[t->kernel][form.products] * (l->gather == GATHER_WIDE ? t->wide : 1.0f);
    const float busy = (float)each * t->busy, alone = (float)ceil_div(each, (size_t)t->resident) * t->alone;
    const float start = MMA_START_NS + t->start * (float)each;
    return (float)(share * t->chunk / UNIT) * products * (busy > alone ? busy : alone) + start +
           split_k_time(a, t, split_k);
}

/* What an activation with an exponential takes where no other group on a multiprocessor multiplies meanwhile; the longer ones are left to
 * HALVES_MMA_RATIO. */
static float act_time(const struct problem *p, const struct conv_args *a, const struct mma_tile *t)
{
    if (t->kernel != MMA_HOPPER || t->resident > 1 || mma_long_activation(p))
        return 0.0f;
    return (float)ceil_div(tile_count(a, t), p->device->compute_units) *
           mma_act_time(p, t->filters * t->pixels);
}

/* Whether chunks of this tile end where taps end. */
static bool fits(const struct layout *l, const struct mma_tile *t)
{
    return (l->gather == GATHER_POSITIONS ? l->depth : l->padded) % t->chunk == 0;
}

struct mma_choice mma_choose(const struct problem *p, const struct conv_args *a, struct mma_form form)
{
    const struct layout l = layout_of(a);
    struct mma_choice best = {form, NULL, 1, 0, 0.0f};
    for (int i = 0; i < COUNT_OF(tiles); i++) {
        const struct mma_tile *t = &tiles[i];
        const size_t packing = p->in[1].constant ? 0 : packed_bytes(a, &l, t, form.products);
        for (int split_k = 1; t->kernel == form.kernel && fits(&l, t) && split_k <= MAX_SPLIT_K; split_k++) {
            const int chunks = l.depth / t->chunk, share = (int)ceil_div((size_t)chunks, (size_t)split_k);
            if (split_k > 1 && (share * t->chunk < MMA_PART_LEAST_DEPTH ||
                                packing + split_k_bytes(a, t, split_k) > p->workspace_limit))
                break;
            if ((split_k - 1) * share >= chunks)
                continue; /* the last share would be empty */
            const float time = time_of(a, &l, t, split_k, share, form, p->device->compute_units) +
                               act_time(p, a, t) +
                               mma_memory_price(p, packing + split_k_bytes(a, t, split_k), 0);
            if (!best.tile || time < best.time)
                best = (struct mma_choice){form, t, split_k, share, time};
        }
    }
    return best;
}

struct mma_choice mma_choose_kernel(const struct problem *p, const struct conv_args *a,
                                    enum mma_products products, int points)
{
    const struct mma_choice mma = mma_choose(p, a, (struct mma_form){MMA_AMPERE, products, points});
    if (!mma_on_device(p, MMA_HOPPER))
        return mma;
    const struct mma_choice wgmma = mma_choose(p, a, (struct mma_form){MMA_HOPPER, products, points});
    return wgmma.time < mma.time ? wgmma : mma;
}

float mma_expected(const struct problem *p, const struct conv_args *a, struct mma_form form)
{
    return mma_choose(p, a, form).time;
}

float mma_shortest(const struct problem *p, const struct conv_args *a, enum mma_products products)
{
    const float wgmma = mma_expected(p, a, (struct mma_form){MMA_HOPPER, products, 0});
    const float mma = mma_expected(p, a, (struct mma_form){MMA_AMPERE, products, 0});
    return wgmma < mma ? wgmma : mma;
}

size_t filter_sizes_bytes(const struct conv_args *a)
{
    return sizeof(float) * (size_t)a->k;
}

size_t mma_workspace(const struct problem *p, const struct conv_args *a, const struct mma_choice *c)
{
    const struct layout l = layout_of(a);
    return (p->in[1].constant ? 0 : packed_bytes(a, &l, c->tile, c->form.products) + filter_sizes_bytes(a)) +
           split_k_bytes(a, c->tile, c->split_k);
}

/* For exact division of numbers up to `largest` by n, by a multiplication; 0 where they are too large. */
static int64_t reciprocal(int n, int largest)
{
    const int64_t one = (int64_t)1 << 32;
    return (int64_t)n * largest < one ? one / n + 1 : 0;
}

int emit_filter_sizes(struct emit *e, const struct problem *p, const struct conv_args *a, int points)
{
    const struct conv_scaled_pack_args args = {
        .w_k = a->w_k,
        .groups = a->groups,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .taps = conv_taps(a),
    };
    char name[96];
    snprintf(name, sizeof name, "conv_filter_sizes g%d k%d c%d t%d w%d", args.groups, args.kg, args.c,
             args.taps, points);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, filter_sizes_bytes(a), "conv_filter_sizes", "main",
                                 ceil_div((size_t)a->k, GROUP_SIZE / FILTER_TEAM), GROUP_SIZE, &setup);
    if (setup) {
        if (points)
            step_define(setup, "POINTS", points);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 4.0 * (double)a->k * args.c * args.taps);
    }
    return view;
}

static int emit_pack(struct emit *e, const struct problem *p, const struct conv_args *a,
                     const struct layout *l, const struct mma_tile *t, struct mma_form form)
{
    const struct conv_mma_pack_args args = {
        .w_k = a->w_k,
        .groups = a->groups,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .taps = conv_taps(a),
        .padded = l->padded,
        .depth = l->depth,
    };
    const bool hopper = t->kernel == MMA_HOPPER;
    const int block = packed_block(t);
    const size_t slab_groups = ceil_div((size_t)l->depth, UNIT * PACK_SLABS);
    const char *file = hopper ? "conv_wgmma_pack" : "conv_mma_pack";
    const size_t bytes = packed_bytes(a, l, t, form.products);
    const size_t groups = split_into_halves(t, form.products) ? (size_t)conv_blocks(a, block) * slab_groups
                                                              : ceil_div(packed_count(a, l, t), GROUP_SIZE);
    char name[96];
    snprintf(name, sizeof name, "%s g%d k%d c%d t%d p%d d%d b%d n%d w%d", file, args.groups, args.kg, args.c,
             args.taps, args.padded, args.depth, block, (int)form.products, form.points);
    const bool scaled = split_into_halves(t, form.products);
    const int sizes = scaled ? emit_filter_sizes(e, p, a, form.points) : VIEW_NONE;
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, file, "main", groups, GROUP_SIZE, &setup);
    if (setup) {
        step_define(setup, "PRODUCTS", (int)form.products);
        if (hopper)
            step_define(setup, "BM", block);
        if (form.points)
            step_define(setup, "POINTS", form.points);
        step_read(setup, p->in[1].view);
        if (scaled)
            step_read(setup, sizes);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

int emit_hopper_filters(struct emit *e, const struct problem *p, const struct conv_args *a, int padded,
                        int block)
{
    const struct layout l = {GATHER_ROWS, padded, padded * conv_taps(a)};
    const struct mma_tile t = {.kernel = MMA_HOPPER, .filters = (short)block};
    return emit_pack(e, p, a, &l, &t, (struct mma_form){MMA_HOPPER, MMA_TF32, 0});
}

/* The same for the phases of transposed convolution `of`, which are the groups of a. */
static int emit_pack_phases(struct emit *e, const struct problem *p, const struct conv_args *a,
                            const struct layout *l, const struct mma_choice *c, const struct conv_args *of)
{
    const enum mma_products products = c->form.products;
    const struct conv_phases_mma_pack_args args = {
        .w_k = of->w_k,
        .groups = a->groups,
        .kg = a->k / a->groups,
        .c = a->c / a->groups,
        .padded = l->padded,
        .depth = l->depth,
        .each = of->groups,
        .phases = conv_phases_of(of),
    };
    const size_t bytes = packed_bytes(a, l, c->tile, products);
    const struct conv_phases *f = &args.phases;
    char name[160];
    int used = snprintf(name, sizeof name, "conv_transpose_mma_pack g%d e%d k%d c%d p%d d%d n%d", args.groups,
                        args.each, args.kg, args.c, args.padded, args.depth, (int)products);
    for (int d = 0; d < 2; d++) /* what phases follow from: the outputs tell how many there are */
        used += snprintf(name + used, sizeof name - (size_t)used, " r%d u%d p%d l%d f%d", f->ker[d],
                         f->stride[d], f->pad[d], f->dil[d], f->count[d]);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, "conv_transpose_mma_pack", "main",
                                 ceil_div(packed_count(a, l, c->tile), GROUP_SIZE), GROUP_SIZE, &setup);
    if (setup) {
        step_define(setup, "PRODUCTS", (int)products);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

size_t mma_filters_workspace(const struct problem *p, const struct conv_args *a, struct mma_filters filters)
{
    const struct layout l = {GATHER_POSITIONS, filters.padded, filters.depth};
    return p->in[1].constant
               ? 0
               : packed_bytes(a, &l, &tiles[0], filters.products); /* all tiles of mma take them */
}

int emit_mma_filters(struct emit *e, const struct problem *p, const struct conv_args *a,
                     struct mma_filters filters)
{
    const struct layout l = {GATHER_POSITIONS, filters.padded, filters.depth};
    return emit_pack(e, p, a, &l, &tiles[0], (struct mma_form){MMA_AMPERE, filters.products, 0});
}

/* of: the transposed convolution whose phases are the groups of a, or NULL; pool: as emit_mma_pooled() takes it, or 0. */
static struct step *emit_products(struct emit *e, const struct problem *p, const struct conv_args *a,
                                  const struct mma_choice *choice, const struct mma_prologue *pre,
                                  const struct conv_args *of, int pool)
{
    const struct mma_choice c = *choice;
    const struct mma_form form = c.form;
    const struct layout l = layout_of(a);
    const size_t tiles_in_all = tile_count(a, c.tile) * (size_t)c.split_k;
    const struct conv_mma_args args = {
        .conv = *a,
        .by_padded = reciprocal(l.padded, l.depth),
        .by_width = reciprocal(a->ker[2], l.depth),
        .by_height = reciprocal(a->ker[1], l.depth),
        .padded = l.padded,
        .depth = l.depth,
        .share = c.share,
        .tiles = (int64_t)tiles_in_all,
        .at_once = (int32_t)at_once(p, &l, c.tile, tiles_in_all),
        .split_k = c.split_k,
        .each = (int32_t)tile_count(a, c.tile),
        .pre_p0 = pre ? pre->p0 : 0.0f,
        .pre_p1 = pre ? pre->p1 : 0.0f,
    };
    const bool split = c.split_k > 1, hopper = form.kernel == MMA_HOPPER;
    /* chains have cheap steps */
    const bool fixup = fixup_pays(a, c.tile, c.split_k) && (hopper || !p->chained);
    const int packed = of ? emit_pack_phases(e, p, a, &l, &c, of) : emit_pack(e, p, a, &l, c.tile, form);
    const size_t partial_bytes =
        fixup ? split_k_bytes(a, c.tile, c.split_k) : conv_split_k_bytes(a, c.split_k);
    const int partial = split ? emit_workspace(e, partial_bytes) : VIEW_NONE;
    struct step *s = emit_step(e, hopper ? "conv_wgmma" : "conv_mma", of ? "phases" : "main",
                               (size_t)args.at_once, (size_t)c.tile->size);
    step_define(s, "BM", c.tile->filters);
    step_define(s, "BN", c.tile->pixels);
    step_define(s, "BK", c.tile->chunk);
    if (!hopper)
        step_define(s, "WM", c.tile->wm);
    step_define(s, "GATHER", l.gather);
    step_define(s, "SPLIT", split + fixup);
    step_define(s, "PRODUCTS", (int)form.products);
    if (conv_is_volume(a))
        step_define(s, "VOLUME", 1);
    if (pool) {
        step_define(s, "POOLED", 1);
        step_define(s, "AVG", pool == POOL_MEAN);
    }
    if (pre) {
        step_define(s, "PRE", 1);
        step_define_id(s, "PRE_ACT", act_identifier(pre->act));
    }
    step_read_map(s, &p->in[0]);
    step_read(s, packed);
    step_read(s, pre ? pre->scale : VIEW_NONE);
    step_read(s, pre ? pre->shift : VIEW_NONE);
    step_write(s, fixup ? partial : VIEW_NONE);
    step_update(s, fixup ? emit_counters(e, tile_count(a, c.tile)) : VIEW_NONE);
    const int parts = fixup ? 1 : c.split_k, out = split && !fixup ? partial : p->out[0].view;
    if (of) {
        const struct conv_phases_mma_args phases = {
            .mma = args,
            .phases = conv_phases_of(of),
            .groups = of->groups,
            .tiles = (int32_t)ceil_div(conv_pixels(a), (size_t)c.tile->pixels),
        };
        step_define(s, "PHASES", 1);
        emit_conv_split_k(e, s, p, of, parts, out, &phases, sizeof phases);
    } else
        emit_conv_split_k(e, s, p, a, parts, out, &args, sizeof args);
    return s;
}

struct step *emit_mma(struct emit *e, const struct problem *p, const struct conv_args *a,
                      const struct mma_choice *c, const struct mma_prologue *pre)
{
    return emit_products(e, p, a, c, pre, NULL, 0);
}

struct step *emit_mma_pooled(struct emit *e, const struct problem *p, const struct conv_args *a,
                             const struct mma_choice *c, int pool)
{
    return emit_products(e, p, a, c, NULL, NULL, pool);
}

struct step *emit_mma_phases(struct emit *e, const struct problem *p, const struct conv_args *a,
                             const struct mma_choice *c, const struct conv_args *of)
{
    return emit_products(e, p, a, c, NULL, of, 0);
}
