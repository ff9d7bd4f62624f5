/* conv_filter_grad_blocked: the gradient of filters, channels x vectors of filters in registers, over maps with channels in
 * blocks, for CPU devices; see kernels/conv_cpu/conv_filter_grad_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/conv_cpu/conv_filter_grad_parts.h"
#include "algos/cost/cost.h"

/* How a problem is cut; the words are the kernel's. */
struct cut {
    struct filter_tile tile;
    struct filter_grad_args args;
    size_t parts_bytes; /* all sums */
};

/* A pointwise problem's rows do not matter: longer ones suit small maps. */
static struct conv_args args_of(const struct problem *p)
{
    struct conv_args a = conv_filter_grad_args(p);
    if (conv_is_pointwise(&a)) {
        const int pixels = (int)conv_map(&a);
        int length = pixels < FILTER_GRAD_ROW_PIXELS ? pixels : FILTER_GRAD_ROW_PIXELS;
        while (pixels % length)
            length--;
        if (length > a.out[2]) {
            a.in[2] = a.out[2] = length;
            a.in[1] = a.out[1] = pixels / length;
            a.in[0] = a.out[0] = 1;
        }
    }
    return a;
}

/* Bands for tiles of kv vectors: filters that share their channels, and how many channels these are at most. */
static int band_channels(struct filter_grad_args *f, const struct problem *p, const struct conv_args *a,
                         const struct filter_tile *tile)
{
    const bool whole = f->cg % p->block == 0 && f->kg % p->block == 0;
    f->band_k = a->groups == 1 || whole ? f->kg : p->block;
    f->bands = (int)ceil_div((size_t)a->k, (size_t)f->band_k);
    f->band_tiles = (int)ceil_div((size_t)f->band_k, (size_t)(tile->kv * p->block));
    int most = 0;
    for (int band = 0; band < f->bands; band++) {
        const int last = (band + 1) * f->band_k < a->k ? (band + 1) * f->band_k - 1 : a->k - 1;
        const int first = band * f->band_k / f->kg * f->cg / tile->ct * tile->ct;
        const int channels = (last / f->kg + 1) * f->cg - first;
        most = channels > most ? channels : most;
    }
    return most;
}

static struct filter_grad_args tiles_of(const struct problem *p, const struct conv_args *a,
                                        const struct filter_tile *tile)
{
    struct filter_grad_args f = filter_grad_args_of(a);
    f.c_tiles = (int)ceil_div((size_t)band_channels(&f, p, a, tile), (size_t)tile->ct);
    return f;
}

/* Sums of a part. */
static size_t sums_of(const struct problem *p, const struct filter_grad_args *f,
                      const struct filter_tile *tile)
{
    return (size_t)(f->ker[0] * f->ker[1] * f->ker[2]) * (size_t)(f->bands * f->band_tiles) *
           (size_t)f->c_tiles * (size_t)(tile->ct * tile->kv * p->block);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Work-items enough: sharing out tiles reads x again for every share, cutting lines into parts writes and reads all sums for
 * every part twice, with the join. What moves fewer bytes. */
static void share_out(struct cut *c, const struct problem *p)
{
    struct filter_grad_args *f = &c->args;
    const size_t wanted = filter_grad_items(p), lines = filter_grad_lines(f),
                 tiles = (size_t)(f->bands * f->band_tiles);
    const double sums = sizeof(float) * (double)sums_of(p, f, &c->tile),
                 x = sizeof(float) * (double)f->n * (double)operand_item(&p->in[0]);
    double fewest = 0.0;
    for (size_t parts = 1; parts <= least(lines, wanted); parts++) {
        const size_t shares = least(tiles, ceil_div(wanted, parts));
        const double idle = (double)wanted / (double)least(parts * shares, wanted);
        const double bytes = (4.0 * sums * (double)parts + x * (double)shares) * idle;
        if ((parts == 1 || bytes < fewest) &&
            (parts == 1 || (double)parts * sums <= (double)p->workspace_limit)) {
            fewest = bytes;
            f->parts = (i32)parts;
            f->shares = (i32)shares;
        }
    }
    c->parts_bytes = (size_t)f->parts * (size_t)sums;
    const size_t row = sizeof(float) * (size_t)p->block *
                       ((size_t)(f->in[2] * f->stride[1]) + (size_t)(f->out[2] * c->tile.kv));
    const size_t maps = sizeof(float) * (size_t)(operand_item(&p->in[0]) + operand_item(&p->in[1])) /
                        (size_t)(f->out[0] * f->out[1]);
    f->rows = (i32)ceil_div(FILTER_GRAD_NEAR_BYTES, row);
    f->span = (i32)ceil_div(FILTER_GRAD_SPAN_BYTES, maps);
    if (f->ker[0] * f->ker[1] * f->ker[2] ==
        1) /* without taps to serve, dy stays near for the tiles of channels */
        f->span = f->rows = (i32)ceil_div(FILTER_GRAD_SLOPES_BYTES, sizeof(float) * (size_t)p->block *
                                                                        (size_t)(f->out[2] * c->tile.kv));
    if (f->span < f->rows)
        f->span = f->rows;
}

static struct cut choose(const struct problem *p)
{
    const struct conv_args a = args_of(p);
    int count;
    const struct filter_tile *tiles = filter_tiles(p, &count);
    struct cut best = {.tile = tiles[0]};
    double least_work = 0.0;
    for (int i = 0; i < count; i++) {
        if (p->block % tiles[i].ct != 0 && a.c > tiles[i].ct)
            continue; /* it would cross the end of a channel block */
        const struct filter_grad_args f = tiles_of(p, &a, &tiles[i]);
        const double work = tiles[i].cost * (double)sums_of(p, &f, &tiles[i]);
        if (i == 0 || work < least_work) {
            least_work = work;
            best = (struct cut){.tile = tiles[i], .args = f};
        }
    }
    return best;
}

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    return true;
}

static struct cut cut_of(const struct problem *p)
{
    struct cut c = choose(p);
    share_out(&c, p);
    return c;
}

static size_t workspace(const struct problem *p)
{
    return cut_of(p).parts_bytes;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct cut c = cut_of(p);
    const struct filter_grad_args *f = &c.args;
    struct filter_grad_steps steps = {
        .file = "conv_filter_grad_blocked",
        .items = (size_t)f->parts * (size_t)f->shares,
        .joins = (size_t)(f->bands * f->band_tiles) * (size_t)f->c_tiles * (size_t)c.tile.kv,
        .sums_bytes = c.parts_bytes,
        .define = {{"CT", c.tile.ct}, {"KV", c.tile.kv}},
    };
    emit_filter_grad(e, p, f, &steps);
}

const struct algo_def algo_conv_filter_grad_blocked = {
    .name = "blocked",
    .doc = "register tiles of channels x filters over channel blocks, partial sums joined in their order",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .second = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
