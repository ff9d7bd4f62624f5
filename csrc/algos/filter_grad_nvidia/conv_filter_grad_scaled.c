/* conv_filter_grad_scaled: the gradient of filters as an implicit matrix product of scaled halves on Hopper's tensor cores;
 * see kernels/filter_grad_nvidia/conv_filter_grad_scaled.cl. */
#include <float.h>

#include "algos/common/rows.h"
#include "algos/filter_grad_nvidia/conv_filter_grad_mma.h"
#include "algos/cost/cost.h"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"

enum {
    GROUP = 384,
    HALVES_GROUP = 256,
    JOIN_GROUP = 256,
    JOIN_GROUPS_EACH = 4, /* groups that a multiprocessor should have */
    BLOCK = 64,           /* channels of a slot */
    OCTET = 8,
    LEAST_STAGES = 2,
    LEAST_CHANNELS = 16, /* of a conv group, and filters */
    MOST_WAVES = 8,
};

/* What a group computes: `slots` for each of two warpgroups, by so many filters; `depth` of a chunk. ns for a chunk, and for a
 * group. */
static const struct scaled_tile {
    int filters, slots, depth;
    float chunk, start;
} tiles[] = {
    {128, 3, 128, 1900.0f, 11000.0f},
    {64, 5, 128, 2000.0f, 10000.0f},
    {128, 2, 64, 1050.0f, 9000.0f},
    {64, 1, 128, 600.0f, 6000.0f},
};

/* How a convolution's maps lie as lines: the pitches of dy's and x's pixels, x's planes, and where positions of the kernel lie
 * on them. [0]: down, [1]: across. */
struct lines {
    struct conv_args a; /* windows of one pixel at stride 1 see a map as one row */
    int planes[2], begin[2], back[2], pitch[2], wanted[2];
    int first, last; /* the least and the greatest shift of a position of the kernel */
    double pixels;   /* of the line, over the batch */
};

/* Of dimension d: tap t is pixel shift_of() of a plane. */
static int shift_of(const struct lines *l, int d, int tap)
{
    const struct conv_args *a = &l->a;
    return (int)floor_div(tap * a->dil[d + 1] - a->pad[d + 1] - l->begin[d], a->stride[d + 1]);
}

static int tap_shift(const struct lines *l, int tap)
{
    return shift_of(l, 0, tap / l->a.ker[2]) * l->pitch[1] + shift_of(l, 1, tap % l->a.ker[2]);
}

/* The least and the greatest shift of so many positions of the kernel from `first` on, of those that there are. */
static void find_shifts(const struct lines *l, int first, int taps, int *least, int *most)
{
    *least = *most = tap_shift(l, first);
    for (int t = first + 1; t < first + taps && t < conv_taps(&l->a); t++) {
        const int shift = tap_shift(l, t);
        *least = shift < *least ? shift : *least;
        *most = shift > *most ? shift : *most;
    }
}

/* A row of the line holds those of dy and of x's planes, and so many zeros that no window reads another row's pixels. */
static void cut(struct lines *l, int d)
{
    const struct conv_args *a = &l->a;
    const int in = a->in[d + 1], out = a->out[d + 1], ker = a->ker[d + 1], stride = a->stride[d + 1];
    l->planes[d] = ker == 1 ? 1 : stride;
    l->begin[d] = ker == 1 ? (stride - a->pad[d + 1] % stride) % stride : 0;
    const int least = shift_of(l, d, 0), most = shift_of(l, d, ker - 1);
    const int there = (int)floor_div(in - l->begin[d] + stride - 1, stride), used = out + most;
    l->wanted[d] = there < used ? there : used;
    l->wanted[d] = l->wanted[d] > 0 ? l->wanted[d] : 0;
    l->back[d] = -least + 1;
    l->pitch[d] = used > out ? used : out;
    if (l->wanted[d] - least > l->pitch[d])
        l->pitch[d] = l->wanted[d] - least;
}

static struct lines lines_of(const struct problem *p)
{
    struct lines l = {.a = conv_filter_grad_args(p)};
    if (conv_is_pointwise(&l.a) && !conv_is_volume(&l.a)) {
        l.a.in[2] = l.a.out[2] = (int)conv_map(&l.a);
        l.a.in[1] = l.a.out[1] = 1;
    }
    cut(&l, 0);
    cut(&l, 1);
    find_shifts(&l, 0, (int)conv_taps(&l.a), &l.first, &l.last);
    l.pixels = (double)l.a.n * l.pitch[0] * l.pitch[1];
    return l;
}

static int octets_of(int channels, int groups)
{
    return (int)ceil_div((size_t)(channels / groups), OCTET);
}

/* How a tile is used: so many positions of the kernel of so many blocks of channels; between how many parts the depth is split.
 * `span`: pixels of an octet of x in a stage, `regions`: planes there. */
struct choice {
    const struct scaled_tile *tile;
    int blocks, taps, regions, span;
    int parts, share;
    float time;
};

/* Pixels that the positions of a tile need of a chunk, copies of whole octets. */
static int span_of(const struct lines *l, int first, int taps, int depth)
{
    int least, most;
    find_shifts(l, first, taps, &least, &most);
    return (int)round_up((size_t)(depth + most - least + (least - l->first) % OCTET), OCTET);
}

static void find_span(const struct lines *l, struct choice *c)
{
    const int planes = l->planes[0] * l->planes[1];
    c->span = 0;
    for (int first = 0; first < conv_taps(&l->a); first += c->taps) {
        const int span = span_of(l, first, c->taps, c->tile->depth);
        c->span = span > c->span ? span : c->span;
    }
    c->regions = planes < c->taps ? planes : c->taps;
}

static int bytes_before_dy(const struct choice *c)
{
    return c->regions * c->blocks * BLOCK * c->span * 2;
}

static int stage_bytes(const struct choice *c)
{
    return bytes_before_dy(c) + c->tile->filters * c->tile->depth * 2;
}

static int stages_of(const struct choice *c)
{
    const int fit = (LINES_LOCAL - LINES_HEADER) / stage_bytes(c);
    return fit < LINES_STAGES ? fit : LINES_STAGES;
}

static size_t tile_count(const struct conv_args *a, const struct choice *c)
{
    return (size_t)a->groups * ceil_div((size_t)(a->c / a->groups), (size_t)(c->blocks * BLOCK)) *
           ceil_div((size_t)conv_taps(a), (size_t)c->taps) *
           ceil_div((size_t)(a->k / a->groups), (size_t)c->tile->filters);
}

/* Pixels of the lines of dy and of x of a part. */
static int length_dy(const struct choice *c)
{
    return c->share * c->tile->depth;
}

static int length_x(const struct lines *l, const struct choice *c)
{
    return (int)round_up((size_t)(length_dy(c) + l->last - l->first), OCTET);
}

/* Pixels of a piece of x's lines: a chunk, if no window goes beyond. */
static int piece_of(const struct lines *l, const struct choice *c)
{
    return l->last == l->first ? c->tile->depth : length_x(l, c);
}

static size_t octets_x(const struct lines *l, const struct choice *c)
{
    return (size_t)c->parts * (size_t)l->a.groups * (size_t)(l->planes[0] * l->planes[1]) *
           (size_t)octets_of(l->a.c, l->a.groups);
}

static size_t octets_dy(const struct lines *l, const struct choice *c)
{
    return (size_t)c->parts * (size_t)l->a.groups * (size_t)octets_of(l->a.k, l->a.groups);
}

static size_t lines_bytes(size_t octets, int length)
{
    return octets * (size_t)length * OCTET * 2;
}

static size_t scales_bytes(size_t octets)
{
    return octets * OCTET * sizeof(float);
}

/* Sums of all parts, for filters in whole octets. */
static size_t parts_bytes(const struct lines *l, const struct choice *c)
{
    return octets_dy(l, c) * OCTET * (size_t)(l->a.c / l->a.groups) * (size_t)conv_taps(&l->a) *
           sizeof(float);
}

static size_t scratch(const struct lines *l, const struct choice *c)
{
    return lines_bytes(octets_x(l, c), length_x(l, c)) + scales_bytes(octets_x(l, c)) +
           lines_bytes(octets_dy(l, c), length_dy(c)) + scales_bytes(octets_dy(l, c)) + parts_bytes(l, c);
}

/* Maps are read, mostly once from memory and once from the cache, and halves written. */
static float lines_time(const struct lines *l, const struct choice *c)
{
    const double halves = (double)lines_bytes(octets_x(l, c), length_x(l, c)) +
                          (double)lines_bytes(octets_dy(l, c), length_dy(c));
    return 2.0f * FILTER_GRAD_LAUNCH_NS + (float)halves / FILTER_GRAD_LINES_BYTES_PER_NS;
}

/* Parts are read by a step of their own. */
static float join_time(const struct lines *l, const struct choice *c)
{
    return FILTER_GRAD_LAUNCH_NS + (float)parts_bytes(l, c) / FILTER_GRAD_JOIN_BYTES_PER_NS;
}

static float time_of(const struct problem *p, const struct lines *l, const struct choice *c)
{
    const size_t each = ceil_div(tile_count(&l->a, c) * (size_t)c->parts, p->device->compute_units);
    const float copied = (float)stage_bytes(c) / FILTER_GRAD_CHUNK_BYTES_PER_NS;
    const float chunk = copied > c->tile->chunk ? copied : c->tile->chunk;
    return MMA_START_NS + (float)each * (c->tile->start + (float)c->share * chunk) + lines_time(l, c) +
           join_time(l, c) + mma_memory_price(p, scratch(l, c), 0);
}

/* The best number of parts for a tile: such as keep all multiprocessors busy. */
static void choose_parts(const struct problem *p, const struct lines *l, struct choice c, struct choice *best)
{
    const size_t chunks = ceil_div((size_t)l->pixels, (size_t)c.tile->depth), count = tile_count(&l->a, &c);
    for (size_t wave = 1; wave <= MOST_WAVES; wave++) {
        const size_t wanted = p->device->compute_units * wave / count;
        c.share = (int)ceil_div(chunks, wanted > 1 ? wanted : 1);
        c.parts = (int)ceil_div(chunks, (size_t)c.share);
        c.time = scratch(l, &c) > p->workspace_limit ? FLT_MAX : time_of(p, l, &c);
        if (best->tile == NULL || c.time < best->time)
            *best = c;
    }
}

static struct choice choose(const struct problem *p, const struct lines *l)
{
    struct choice best = {.tile = NULL};
    for (size_t i = 0; i < COUNT_OF(tiles); i++)
        for (int blocks = 1; blocks <= 2 * tiles[i].slots; blocks++) {
            struct choice c = {.tile = &tiles[i], .blocks = blocks, .taps = 2 * tiles[i].slots / blocks};
            if (c.taps * blocks != 2 * tiles[i].slots)
                continue;
            find_span(l, &c);
            if (stages_of(&c) >= LEAST_STAGES)
                choose_parts(p, l, c, &best);
        }
    return best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct lines l = lines_of(p);
    REQUIRE(why, mma_on_device(p, MMA_HOPPER), "an NVIDIA GPU of compute capability 9.0 is needed");
    REQUIRE(why, filter_grad_fits(&l.a) && l.pixels + l.last - 2.0 * l.first < INT32_MAX,
            "windows with a depth, and very large maps, are left to others");
    const struct choice c = choose(p, &l);
    DECIDE(p, c);
    REQUIRE(why, c.tile != NULL && conv_taps(&l.a) <= JOIN_RESULTS,
            "windows that take too much local memory are left to others");
    PREFER(why, l.a.c / l.a.groups >= LEAST_CHANNELS && l.a.k / l.a.groups >= LEAST_CHANNELS,
           "fewer than 16 channels or filters a group leave most of a tile empty");
    PREFER(why, c.time < filter_grad_time_tf32(p),
           "operands as they are, rounded to tf32, are expected to be faster");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct lines l = lines_of(p);
    struct choice c;
    DECIDED(p, c);
    return scratch(&l, &c);
}

/* A map as lines, in workspace: the views of them and of what undoes their scales. */
struct views {
    int lines, back;
};

/* Positions that a work-item holds: all of a line, if that is not too long. */
static int kept(int length)
{
    return length > HALVES_GROUP * 4 && length <= HALVES_GROUP * 8 ? 8 : 4;
}

static struct views emit_lines(const struct problem *p, struct emit *e, int of, size_t octets,
                               const struct filter_grad_halves_args *args)
{
    const struct views v = {emit_workspace(e, lines_bytes(octets, args->length)),
                            emit_workspace(e, scales_bytes(octets))};
    struct step *s = emit_step(e, "conv_filter_grad_halves", "main", octets, HALVES_GROUP);
    step_define(s, "KEPT", kept(args->length));
    step_read(s, p->in[of].view);
    step_write(s, v.lines);
    step_write(s, v.back);
    step_args(s, args, sizeof *args);
    step_cost(s, 0.0, 3.0 * (double)lines_bytes(octets, args->length));
    return v;
}

static struct views emit_x(const struct problem *p, struct emit *e, const struct lines *l,
                           const struct choice *c)
{
    const struct conv_args *a = &l->a;
    const struct filter_grad_halves_args args = {
        .image = a->src_n,
        .n = a->n,
        .groups = a->groups,
        .each = a->c / a->groups,
        .in = {a->in[1], a->in[2]},
        .stride = {a->stride[1], a->stride[2]},
        .planes = {l->planes[0], l->planes[1]},
        .begin = {l->begin[0], l->begin[1]},
        .rows = l->wanted[0],
        .columns = l->wanted[1],
        .high = l->pitch[0],
        .wide = l->pitch[1],
        .first = l->first,
        .step = length_dy(c),
        .length = length_x(l, c),
        .piece = piece_of(l, c),
    };
    return emit_lines(p, e, 0, octets_x(l, c), &args);
}

static struct views emit_dy(const struct problem *p, struct emit *e, const struct lines *l,
                            const struct choice *c)
{
    const struct conv_args *a = &l->a;
    const struct filter_grad_halves_args args = {
        .image = a->dst_n,
        .n = a->n,
        .groups = a->groups,
        .each = a->k / a->groups,
        .in = {a->out[1], a->out[2]},
        .stride = {1, 1},
        .planes = {1, 1},
        .rows = a->out[1],
        .columns = a->out[2],
        .high = l->pitch[0],
        .wide = l->pitch[1],
        .step = length_dy(c),
        .length = length_dy(c),
        .piece = c->tile->depth,
    };
    return emit_lines(p, e, 1, octets_dy(l, c), &args);
}

static struct filter_grad_scaled_args args_of(const struct lines *l, const struct choice *c)
{
    const struct conv_args *a = &l->a;
    return (struct filter_grad_scaled_args){
        .conv = *a,
        .share = c->share,
        .chunks = (int32_t)ceil_div((size_t)l->pixels, (size_t)c->tile->depth),
        .high = l->pitch[0],
        .wide = l->pitch[1],
        .first = l->first,
        .length = length_x(l, c),
        .piece = piece_of(l, c),
        .whole = l->last == l->first,
        .planes = {l->planes[0], l->planes[1]},
        .begin = {l->begin[0], l->begin[1]},
        .down = l->back[0],
        .right = l->back[1],
        .octets_x = octets_of(a->c, a->groups),
        .octets_dy = octets_of(a->k, a->groups),
        .blocks = c->blocks,
        .taps = c->taps,
        .channel_tiles = (int32_t)ceil_div((size_t)(a->c / a->groups), (size_t)(c->blocks * BLOCK)),
        .tap_tiles = (int32_t)ceil_div((size_t)conv_taps(a), (size_t)c->taps),
        .filter_tiles = (int32_t)ceil_div((size_t)(a->k / a->groups), (size_t)c->tile->filters),
        .span = c->span,
        .of_dy = bytes_before_dy(c),
        .stage = stage_bytes(c),
        .stages = stages_of(c),
    };
}

/* A group takes many channels, for results side by side, but not so many that multiprocessors have nothing to do. */
static void emit_join(const struct problem *p, struct emit *e, const struct lines *l, const struct choice *c,
                      int parts)
{
    const struct conv_args *a = &l->a;
    const int kg = a->k / a->groups, cg = a->c / a->groups, most = JOIN_RESULTS / (int)conv_taps(a);
    const size_t strips = (size_t)a->groups * ceil_div((size_t)kg, JOIN_FILTERS);
    const size_t wanted = ceil_div((size_t)p->device->compute_units * JOIN_GROUPS_EACH, strips);
    const int few = (int)ceil_div((size_t)cg, wanted), each = few < most ? few : most;
    const struct filter_grad_join_args args = {
        .apart = a->w_k,
        .groups = a->groups,
        .k = kg,
        .c = cg,
        .taps = (int32_t)conv_taps(a),
        .pitch = octets_of(a->k, a->groups) * OCTET,
        .parts = c->parts,
        .each = each,
    };
    struct step *s = emit_step(e, "conv_filter_grad_join", "main",
                               strips * ceil_div((size_t)cg, (size_t)each), JOIN_GROUP);
    step_read(s, parts);
    step_write(s, p->out[0].view);
    step_args(s, &args, sizeof args);
    step_cost(s, 0.0, (double)parts_bytes(l, c) * (c->parts + 1) / c->parts);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct lines l = lines_of(p);
    struct choice c;
    DECIDED(p, c);
    const struct views x = emit_x(p, e, &l, &c), dy = emit_dy(p, e, &l, &c);
    const int parts = emit_workspace(e, parts_bytes(&l, &c));
    const struct filter_grad_scaled_args args = args_of(&l, &c);
    struct step *s =
        emit_step(e, "conv_filter_grad_scaled", "main", tile_count(&l.a, &c) * (size_t)c.parts, GROUP);
    step_define(s, "BN", c.tile->filters);
    step_define(s, "SLOTS", c.tile->slots);
    step_define(s, "DEPTH", c.tile->depth);
    step_read(s, x.lines);
    step_read(s, x.back);
    step_read(s, dy.lines);
    step_read(s, dy.back);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, parts);
    step_args(s, &args, sizeof args);
    rows_cost(s, p, conv_macs(&l.a));
    emit_join(p, e, &l, &c, parts);
}

const struct algo_def algo_conv_filter_grad_wgmma_scaled = {
    .name = "wgmma_scaled",
    .doc =
        "implicit GEMM of scaled halves on Hopper's tensor cores, maps as lines that windows are pieces of",
    .devices = DEVICES_HOPPER,
    .error = ERROR_HIGH,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
