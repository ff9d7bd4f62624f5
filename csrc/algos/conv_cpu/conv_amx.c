/* conv_amx: convolutions by tiles of bfloat16, for CPU devices; see kernels/conv_cpu/conv_amx.cl. */
#include "algos/conv_cpu/conv_amx.h"
#include "algos/cost/cost.h"

#include <math.h>
#include <stdio.h>

enum {
    /* as the kernel has them: */
    SIDE = 32, /* positions and filters of a block */
    RUN = 128, /* positions that are split at a time */
    SUMS = 48, /* blocks of a group whose sums wait */
};

/* Channels of a chunk, and bytes of a position. */
static const struct {
    int channels, bytes;
} formats[] = {[AMX_PARTS] = {32, 3 * 32 * 2}, [AMX_WHOLE] = {32, 32 * 2}, [AMX_BYTES] = {64, 64}};

enum amx_format amx_format_of(const struct problem *p)
{
    return p->few_bits ? AMX_WHOLE : AMX_PARTS;
}

/* ---- positions ------------------------------------------------------------------------------------------------- */

/* A dimension at a stride, of whose phases each has every stride-th pixel. */
struct phase {
    int lead;  /* positions before the first pixel */
    int shift; /* pixels from a window's first position to its first pixel */
    int past;  /* positions from there to its last tap */
    int pitch; /* between neighbours: windows that reach past either end find zeros, and there is one for each result */
};
static struct phase phase_of(const struct conv_args *a, int d, int stride)
{
    const int in = (a->in[d] + stride - 1) / stride, lead = (a->pad[d] + stride - 1) / stride;
    struct phase f = {.lead = lead, .shift = lead * stride - a->pad[d]};
    f.past = ((a->ker[d] - 1) * a->dil[d] + f.shift) / stride;
    const int after = a->out[d] - 1 + f.past - lead - (in - 1), gap = after > lead ? after : lead;
    f.pitch = in + gap > a->out[d] ? in + gap : a->out[d];
    return f;
}

/* Windows of one pixel see a map of every stride-th pixel; others have phases. */
static void place(struct conv_amx_args *args, const struct conv_args *a)
{
    struct conv_args seen = *a;
    const bool point = conv_reads_inside(a);
    for (int d = 0; d < 2; d++) {
        args->out[d] = a->out[d + 1];
        args->ker[d] = a->ker[d + 1];
        args->dil[d] = a->dil[d + 1];
        args->stride[d] = a->stride[d + 1];
        args->phases[d] = point ? 1 : a->stride[d + 1];
        if (point)
            seen.in[d + 1] = a->out[d + 1];
    }
    const struct phase down = phase_of(&seen, 1, args->phases[0]),
                       along = phase_of(&seen, 2, args->phases[1]);
    args->shift[0] = down.shift;
    args->shift[1] = along.shift;
    args->pitch = along.pitch;
    args->height = down.pitch;
    args->lead = down.lead * along.pitch + along.lead;
    const int64_t rows = (int64_t)(a->n - 1) * args->height + a->out[1] - 1;
    args->blocks = (i32)ceil_div((size_t)(rows * args->pitch + a->out[2]), SIDE);
    args->positions = (int64_t)args->blocks * SIDE + (int64_t)down.past * args->pitch + along.past;
}

/* ---- sharing out ----------------------------------------------------------------------------------------------- */

static size_t phases_of(const struct conv_amx_args *a)
{
    return (size_t)(a->phases[0] * a->phases[1]);
}

/* Bytes of a tile of filters as parts: 32 of them, and a chunk of channels. */
static size_t tile_bytes(const struct conv_amx_args *a)
{
    return (size_t)(SIDE * a->position);
}

static size_t taps_of(const struct conv_amx_args *a)
{
    return (size_t)(a->ker[0] * a->ker[1]);
}

/* Chunks of so many blocks of positions that stay in a core's cache beside filters. */
static size_t near_chunks(const struct problem *p, size_t blocks, const struct conv_amx_args *a)
{
    const double near = AMX_CACHE_RATIO * (double)device_traits(p->device).core_cache_bytes;
    const size_t tiles = blocks * phases_of(a) + (a->floats ? 2 * taps_of(a) : 0);
    const size_t most = (size_t)near / (tiles * tile_bytes(a));
    return most > 1 ? most : 1;
}

/* Splitting filters in every run, over their products with so many blocks of positions. */
static double splitting(size_t blocks)
{
    return AMX_SPLIT_BLOCKS / (double)blocks;
}

static bool keeps_floats(const struct problem *p, const struct conv_amx_args *a)
{
    return p->fresh_filters && p->in[1].constant && a->position == formats[AMX_PARTS].bytes;
}

/* Where there are enough positions, or few filters, each group has all of these, and splits its own. Else groups have parts of the filters, too, and
 * positions are split before. Of many channels as many at a time as stay near, while sums wait. */
static void share_out(struct conv_amx_args *args, const struct problem *p)
{
    const size_t blocks = (size_t)args->blocks, filters = (size_t)args->k_blocks,
                 chunks = (size_t)args->chunks;
    const size_t units = device_units(p->device), reach = (size_t)args->positions - blocks * SIDE;
    const int products = args->k * (int)taps_of(args); /* of a pixel's channel */
    const bool few = products >= AMX_FEWEST_OWN_FILTERS && products < AMX_FEWEST_SHARED_FILTERS;
    const bool many = blocks >= (few ? 1 : AMX_FRESH_BLOCKS) * units;
    size_t across = ceil_div(blocks, AMX_BLOCKS), rounds = 1;
    if (many) {
        const size_t wanted = ceil_div(blocks, units * AMX_BLOCKS); /* parts of a core */
        rounds = ceil_div(wanted, p->little_scratch ? 1 : AMX_CORE_GROUPS);
        across = units * ceil_div(wanted, rounds);
    }
    const size_t per = ceil_div(blocks, across * rounds);
    args->floats = keeps_floats(p, args);
    const size_t passes = args->span < args->chunks ? 1 : ceil_div(chunks, near_chunks(p, per, args));
    const bool waits = passes > 1;
    size_t parts = many ? 1 : ceil_div(AMX_UNIT_GROUPS * units, across);
    if (waits && parts < ceil_div(filters, SUMS / per))
        parts = ceil_div(filters, SUMS / per);
    if (parts > filters)
        parts = filters;
    args->mode = parts == 1 ? AMX_FRESH : AMX_SPLIT_BEFORE;
    if (parts == 1)
        args->positions = (int64_t)(per * SIDE + reach);
    args->across = (i32)across;
    args->rounds = (i32)rounds;
    args->k_per = (i32)ceil_div(filters, parts);
    args->depth = (i32)ceil_div(chunks, passes);
}

struct amx_cut amx_cut_of(const struct problem *p, enum amx_format format, const struct conv_args *whole,
                          int span, int64_t x_row, int64_t y_row)
{
    struct conv_args a = *whole;
    if (conv_is_pointwise(&a)) { /* one long row */
        a.in[2] = a.out[2] = a.in[1] * a.in[2];
        a.in[1] = a.out[1] = 1;
    }
    struct amx_cut c = {.args = {
                            .src_n = a.src_n,
                            .dst_n = a.dst_n,
                            .add_n = a.add_n,
                            .w_k = a.w_k,
                            .x_row = x_row,
                            .y_row = y_row,
                            .n = a.n,
                            .c = a.c,
                            .k = a.k,
                            .chunks = (i32)ceil_div((size_t)a.c, (size_t)formats[format].channels),
                            .k_blocks = (i32)ceil_div((size_t)a.k, SIDE),
                            .k_group = a.k / a.groups,
                            .c_group = a.c / a.groups,
                            .width = a.in[2],
                            .map_height = a.in[1],
                            .position = formats[format].bytes,
                        }};
    c.args.span = span ? span : c.args.chunks;
    place(&c.args, &a);
    share_out(&c.args, p);
    c.groups = (size_t)c.args.across * ceil_div((size_t)c.args.k_blocks, (size_t)c.args.k_per);
    c.splits = c.args.mode == AMX_FRESH
                   ? 0
                   : (size_t)c.args.chunks * phases_of(&c.args) * ceil_div((size_t)c.args.positions, RUN);
    return c;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

static size_t filter_bytes(const struct conv_amx_args *a)
{
    const size_t tile = a->floats ? (size_t)(SIDE * SIDE) * sizeof(float) : tile_bytes(a);
    return (size_t)a->k_blocks * (size_t)a->span * taps_of(a) * tile;
}

size_t amx_position_bytes(const struct conv_amx_args *a)
{
    const size_t chunks = a->mode == AMX_FRESH ? (size_t)(a->across * a->depth) : (size_t)a->chunks;
    return chunks * phases_of(a) * (size_t)a->positions * (size_t)a->position;
}

/* Of positions, and of the filters that groups split. */
static size_t split_bytes(const struct amx_cut *c)
{
    const struct conv_amx_args *a = &c->args;
    const size_t deep = (size_t)(a->depth < a->span ? a->depth : a->span);
    return amx_position_bytes(a) + (a->floats ? 2 * c->groups * deep * taps_of(a) * tile_bytes(a) : 0);
}

size_t amx_workspace(const struct problem *p, const struct amx_cut *c)
{
    return split_bytes(c) + (p->in[1].constant ? 0 : filter_bytes(&c->args));
}

static void define(struct step *s, const struct problem *p, const struct conv_amx_args *a)
{
    step_define(s, "V", p->block);
    step_define(s, "AMX", device_traits(p->device).amx_tiles);
    step_define(s, "ROWS", a->x_row > 0);
    step_define(s, "PARTS", a->position / (SIDE * 2));
}

static int emit_filters(struct emit *e, const struct problem *p, const struct conv_amx_args *a)
{
    char name[64];
    snprintf(name, sizeof name, "amx k%d c%d r%d s%d p%d%s", a->k, a->c, a->ker[0], a->ker[1], a->position,
             a->floats ? " floats" : "");
    const size_t bytes = filter_bytes(a), groups = (size_t)a->k_blocks * (size_t)a->chunks;
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, "conv_amx", "pack", groups, 1, &setup);
    if (setup) {
        define(setup, p, a);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, a, sizeof *a);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)bytes);
    }
    return view;
}

void amx_step_results(struct step *s, const struct conv_amx_args *a, int positions, int y)
{
    if (a->mode == AMX_SPLIT_BEFORE && !a->floats)
        step_read(s, positions);
    else
        step_write(s, positions);
    if (a->mode == AMX_SPLIT)
        step_read(s, VIEW_NONE);
    else
        step_write(s, y);
}

/* A step of one of both modes; filters, and y, as far as it needs them. */
static struct step *emit_mode(struct emit *e, const struct problem *p, const struct conv_amx_args *a,
                              size_t groups, int filters, int positions, const struct amx_source *source)
{
    const bool splits = a->mode != AMX_SPLIT_BEFORE, multiplies = a->mode != AMX_SPLIT;
    struct step *s = source->begin(e, source->of, groups, splits);
    define(s, p, a);
    step_read(s, multiplies ? filters : VIEW_NONE);
    blocked_step_epilogue(s, p, &p->in[2]);
    amx_step_results(s, a, positions, p->out[0].view);
    source->end(s, source->of, a);
    return s;
}

struct step *emit_amx(struct emit *e, const struct problem *p, const struct amx_cut *c,
                      const struct amx_source *source)
{
    struct conv_amx_args args = c->args;
    args.epi = blocked_epilogue_of(p, &p->in[2]);
    const int filters = emit_filters(e, p, &args), positions = emit_workspace(e, split_bytes(c));
    if (c->splits > 0) {
        struct conv_amx_args split = args;
        split.mode = AMX_SPLIT;
        step_cost(emit_mode(e, p, &split, c->splits, filters, positions, source), 0.0,
                  4.0 * (double)shape_count(&p->in[0].shape) + (double)amx_position_bytes(&args));
    }
    return emit_mode(e, p, &args, c->groups, filters, positions, source);
}

static struct step *begin(struct emit *e, void *of, size_t groups, bool reads)
{
    const struct problem *p = of;
    struct step *s = emit_step(e, "conv_amx", "main", groups, 1);
    step_read(s, reads ? p->in[0].view : VIEW_NONE);
    return s;
}

static void end(struct step *s, void *of, const struct conv_amx_args *a)
{
    (void)of;
    step_args(s, a, sizeof *a);
}

struct step *emit_amx_conv(struct emit *e, const struct problem *p, const struct amx_cut *c)
{
    struct problem of = *p;
    const struct amx_source source = {&of, begin, end};
    return emit_amx(e, p, c, &source);
}

/* ---- convolutions ---------------------------------------------------------------------------------------------- */

bool amx_pays(const struct problem *p, const struct amx_cut *c, int fewest_channels, struct why *why)
{
    const struct conv_amx_args *a = &c->args;
    const int64_t results = (int64_t)a->n * a->out[0] * a->out[1];
    PREFER(why, !p->quick, TILES_BUILT_LATER);
    PREFER(why, p->in[1].constant, SPLIT_FILTERS);
    PREFER(why, a->floats || results >= (p->few_bits ? AMX_FEWEST_WHOLE_POSITIONS : AMX_FEWEST_POSITIONS),
           FEW_POSITIONS);
    const double macs = (double)results * a->c * a->k * a->ker[0] * a->ker[1];
    const int channels = p->few_bits ? AMX_FEWEST_WHOLE_CHANNELS : fewest_channels,
              filters = p->few_bits ? AMX_FEWEST_WHOLE_CHANNELS : AMX_FEWEST_FILTERS;
    const int taps = (int)taps_of(a), products = a->k * taps; /* of a pixel's channel */
    PREFER(why, a->c >= channels && products >= filters && (taps == 1 || a->k >= SIDE), THIN);
    PREFER(why,
           p->few_bits || a->mode == AMX_FRESH ||
               (products >= AMX_FEWEST_SHARED_FILTERS && macs >= AMX_SHARED_MACS),
           SHARED);
    PREFER(why, device_traits(p->device).amx_tiles, NO_TILES);
    return true;
}

double amx_effort(const struct problem *p, const struct amx_cut *c)
{
    const struct conv_amx_args *a = &c->args;
    if (!device_traits(p->device).amx_tiles)
        return AMX_WITHOUT_TILES_PERCENT;
    if (p->few_bits)
        return AMX_WHOLE_EFFORT_PERCENT;
    const size_t blocks = ceil_div((size_t)a->blocks, (size_t)(a->across * a->rounds));
    const double taps = (double)taps_of(a), results = (double)a->n * a->out[0] * a->out[1];
    const double beside = AMX_SPLIT_TILES / (taps * a->k_blocks) + AMX_STORE_TILES / (taps * a->span) +
                          (a->floats ? splitting(blocks) : 0.0);
    return AMX_EFFORT_PERCENT * (1.0 + beside) * ((double)a->blocks * SIDE / results);
}

static struct amx_cut cut_of(const struct problem *p)
{
    const struct conv_args a = conv_args_of_slices(p);
    return amx_cut_of(p, amx_format_of(p), &a, 0, 0, 0);
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, p->block == 16, NARROW_LANES);
    const struct conv_args a = conv_args_of_slices(p);
    REQUIRE(why, a.groups == 1 && !conv_is_volume(&a), "tiles of bfloat16 are for one group, and for maps");
    const struct amx_cut c = cut_of(p);
    return amx_pays(p, &c, AMX_FEWEST_CHANNELS, why);
}

static double effort_of(const struct problem *p)
{
    const struct amx_cut c = cut_of(p);
    return amx_effort(p, &c);
}

double amx_conv_effort(const struct problem *p)
{
    struct why why = {NULL, false};
    return applicable(p, &why) ? effort_of(p) : HUGE_VAL;
}

static size_t workspace(const struct problem *p)
{
    const struct amx_cut c = cut_of(p);
    return amx_workspace(p, &c);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct amx_cut c = cut_of(p);
    conv_cost(emit_amx_conv(e, p, &c), p);
}

const struct algo_def algo_conv_amx = {
    .name = "amx",
    .doc = "tiles of bfloat16, three for each float, over channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .rounding = ROUNDING_BF16_PARTS,
    .deterministic = true,
    .stores_in_place = true,
    .effort = AMX_EFFORT_PERCENT,
    .effort_of = effort_of,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
