/* conv_fft: convolution by Fourier transforms of overlapping tiles over channel blocks, for CPU devices; see
 * kernels/conv_cpu/conv_fft.cl. */
#include "algos/conv_cpu/conv_winograd.h"

#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/cost/profile.h"
#include "conv_cpu/fft_args.h"

#include <stdio.h>

enum { LEAST_TAPS = 25 };

/* A size of tiles, and what its transforms take, in multiply-adds at the peak: of a channel of an input tile, and of a filter of an
 * output tile. */
struct transform {
    int size;
    double in, out;
};
static const struct transform transforms[] = {{16, 10000.0, 3500.0}, {32, 55000.0, 34000.0}};

/* Tiles of a register tile, and the time of a multiply-add over that of the first. */
struct register_tile {
    int t;
    double cost;
};
static const struct register_tile wide_tiles[] = {{8, 1.0}, {4, 1.05}}, narrow_tiles[] = {{6, 1.0}, {4, 1.1}};

/* How a problem is cut. */
struct cut {
    int size, t;
    int step[2];               /* output pixels of a tile */
    size_t points;             /* of a spectrum */
    size_t high, wide;         /* tiles of an image */
    size_t tiles, tile_blocks; /* of the batch; blocks of t tiles */
    size_t slice;              /* blocks of tiles a step */
    size_t c_blocks, k_blocks; /* of a group */
    size_t part_bytes;         /* of the spectra of a block of tiles of a group */
    size_t filter_bytes;       /* of all filters' spectra */
    double time;               /* expected, in multiply-adds at the peak */
};

static struct cut cut_by(const struct problem *p, const struct conv_args *a, const struct transform *f,
                         const struct register_tile *tile)
{
    const size_t block = (size_t)p->block, cg = (size_t)(a->c / a->groups), t = (size_t)tile->t;
    struct cut c = {
        .size = f->size,
        .t = tile->t,
        .step = {f->size - a->ker[1] + 1, f->size - a->ker[2] + 1},
        .points = (size_t)(f->size * f->size / 2 + 2),
        .c_blocks = ceil_div(cg, block),
        .k_blocks = ceil_div((size_t)(a->k / a->groups), block),
    };
    c.high = ceil_div((size_t)a->out[1], (size_t)c.step[0]);
    c.wide = ceil_div((size_t)a->out[2], (size_t)c.step[1]);
    c.tiles = (size_t)a->n * c.high * c.wide;
    c.tile_blocks = ceil_div(c.tiles, t);
    c.part_bytes = sizeof(float) * c.points * (c.c_blocks * t * 2 + 1) * block;
    c.filter_bytes = sizeof(float) * 2 * c.points * (size_t)a->groups * c.k_blocks * block * cg;
    const size_t made = p->in[1].constant ? 0 : c.filter_bytes;
    const size_t spare = p->workspace_limit > made ? p->workspace_limit - made : 0;
    const size_t most =
        (spare < FFT_SLICE_BYTES ? spare : FFT_SLICE_BYTES) / ((size_t)a->groups * c.part_bytes);
    c.slice = most ? ceil_div(c.tile_blocks, ceil_div(c.tile_blocks, most)) : 1;

    const double tiles = (double)(c.tile_blocks * t), filters = (double)c.filter_bytes;
    const double steps = (double)ceil_div(c.tile_blocks, c.slice);
    /* a complex product is four */
    const double products = tile->cost * tiles * filters / (2 * sizeof(float)) * 4.0 / FFT_PEAK_RATIO;
    const double ends = (double)c.c_blocks * f->in + (double)c.k_blocks * f->out;
    c.time = products + tiles * (double)a->groups * (double)block * ends +
             steps * FFT_FILTER_BYTE_MACS * profile_memory(p->device) * filters +
             (p->in[1].constant ? 0.0 : FFT_FRESH_BYTE_MACS * filters) +
             (2.0 * steps - 1.0) * FFT_STEP_MACS * (double)device_units(p->device);
    return c;
}

/* The fastest of those whose spectra are within the limit; points is 0 when none is. */
static struct cut cut_of(const struct problem *p, const struct conv_args *a)
{
    const struct register_tile *tiles = p->block == 16 ? wide_tiles : narrow_tiles;
    const int count = p->block == 16 ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    struct cut best = {.points = 0};
    for (int i = 0; i < COUNT_OF(transforms); i++) {
        const struct transform *f = &transforms[i];
        if (a->ker[1] > f->size || a->ker[2] > f->size)
            continue;
        for (int j = 0; j < count; j++) {
            const struct cut c = cut_by(p, a, f, &tiles[j]);
            if (c.filter_bytes / FFT_KEPT_RATIO <= p->workspace_limit &&
                (best.points == 0 || c.time < best.time))
                best = c;
        }
    }
    return best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, conv_is_2d(p), "transforms of tiles are for one and two dimensions");
    REQUIRE(why, conv_is_dense(&a), "transforms of tiles are for stride 1 and dilation 1");
    REQUIRE(why, a.ker[1] * a.ker[2] >= LEAST_TAPS,
            "transforms of tiles are for filters of 25 taps or more, as 5x5");
    REQUIRE(why, a.ker[1] <= 32 && a.ker[2] <= 32, "the filters exceed a tile of 32x32");
    REQUIRE(why, !conv_groups_in_parts(&a, p->block), GROUPS_IN_PARTS);
    const struct cut c = cut_of(p, &a);
    REQUIRE(why, c.points > 0, "the spectra of its filters exceed four times workspace_limit");
    DECIDE(p, c);
    PREFER(why, c.time < FFT_WORTH_RATIO * blocked_direct_cost(&a),
           "too few taps, tiles or filters to pay for the transforms");
    PREFER(why, a.ker[1] != 5 || a.ker[2] != 5 || c.time < winograd5_cost(p, &a),
           "F(2x2, 5x5) is expected to be faster");
    return true;
}

static double effort_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    return blocked_effort(&a, c.time);
}

static size_t spectra_bytes(const struct cut *c, const struct conv_args *a)
{
    return c->part_bytes * (size_t)a->groups * c->slice;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    return spectra_bytes(&c, &a) + (p->in[1].constant ? 0 : c.filter_bytes);
}

static struct conv_fft_args args_of(const struct problem *p, const struct conv_args *a, const struct cut *c)
{
    return (struct conv_fft_args){
        .src_n = a->src_n,
        .dst_n = a->dst_n,
        .add_n = a->add_n,
        .w_k = a->w_k,
        .k = a->k,
        .kg = a->k / a->groups,
        .cg = a->c / a->groups,
        .groups = a->groups,
        .c_blocks = (i32)c->c_blocks,
        .k_blocks = (i32)c->k_blocks,
        .in = {a->in[1], a->in[2]},
        .out = {a->out[1], a->out[2]},
        .pad = {a->pad[1], a->pad[2]},
        .ker = {a->ker[1], a->ker[2]},
        .tiles_high = (i32)c->high,
        .tiles_wide = (i32)c->wide,
        .t = c->t,
        .c_step = 1,
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
}

static void define_tiles(struct step *s, const struct problem *p, const struct cut *c)
{
    step_define(s, "V", p->block);
    step_define(s, "T", c->size);
}

static int emit_filters(struct emit *e, const struct problem *p, const struct cut *c,
                        const struct conv_fft_args *args)
{
    char name[96];
    snprintf(name, sizeof name, "conv_fft t%d g%d k%d c%d r%d s%d v%d", c->size, args->groups, args->kg,
             args->cg, args->ker[0], args->ker[1], p->block);
    struct step *setup;
    const size_t groups = (size_t)args->groups * c->k_blocks * (size_t)args->cg;
    const int view = emit_packed(e, &p->in[1], name, c->filter_bytes, "conv_fft", "pack", groups, 1, &setup);
    if (setup) {
        define_tiles(setup, p, c);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, args, sizeof *args);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)c->filter_bytes);
    }
    return view;
}

/* The blocks of tiles from first_block on: their spectra, and what becomes of them. */
static void emit_slice(struct emit *e, const struct problem *p, const struct cut *c,
                       struct conv_fft_args *args, int spectra, int filters, size_t first_block)
{
    const size_t left = c->tile_blocks - first_block, blocks = left < c->slice ? left : c->slice;
    const size_t first = first_block * (size_t)c->t, count = blocks * (size_t)c->t;
    args->first_tile = (i32)first;
    args->tiles = (i32)(first + count < c->tiles ? count : c->tiles - first);
    const double share = (double)args->tiles / (double)c->tiles;
    const size_t pieces = ceil_div(c->c_blocks, (size_t)args->c_step), parts = blocks * (size_t)args->groups;

    struct step *s = emit_step(e, "conv_fft", "in", parts * pieces, 1);
    define_tiles(s, p, c);
    step_read(s, p->in[0].view);
    step_write(s, spectra);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0, share * 4.0 * (double)shape_count(&p->in[0].shape) + (double)(parts * c->part_bytes));

    s = emit_step(e, "conv_fft", "main", parts * c->k_blocks, 1);
    define_tiles(s, p, c);
    step_define(s, "TT", c->t);
    step_read(s, spectra);
    step_read(s, filters);
    blocked_step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, args, sizeof *args);
    conv_cost(s, p);
    step_cost(s, share * s->macs, share * s->bytes);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct cut c;
    DECIDED(p, c);
    struct conv_fft_args args = args_of(p, &a, &c);
    const int filters = emit_filters(e, p, &c, &args);
    const int spectra = emit_workspace(e, spectra_bytes(&c, &a));
    for (size_t block = 0; block < c.tile_blocks; block += c.slice)
        emit_slice(e, p, &c, &args, spectra, filters, block);
}

const struct algo_def algo_conv_fft = {
    .name = "fft",
    .doc = "Fourier transforms of tiles of 16x16 or 32x32, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .bound = BOUND_NORMWISE,
    .deterministic = true,
    .effort = FFT_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
