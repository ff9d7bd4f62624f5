/* conv_tiles.c: register tiles of the convolutions with blocked results; see conv_tiles.h. */
#include "algos/conv_cpu/conv_tiles.h"
#include "algos/cost/cost.h"

/* What 32 registers of 16 floats hold, and 16 of 8. Two vectors of filters keep the loads behind the multiply-adds, one does
 * not: without a broadcast in the instruction, each pixel is a load. 7 columns, or 4, suit maps of 7 x 7, and 8 those of
 * powers of two. */
static const struct conv_tile wide_tiles[] = {{14, 2, 1.0}, {8, 2, 1.04},  {7, 2, 1.05},
                                              {28, 1, 1.2}, {14, 1, 1.34}, {7, 1, 1.5}};
static const struct conv_tile narrow_tiles[] = {
    {6, 2, 1.0}, {4, 3, 1.0}, {5, 2, 1.05}, {12, 1, 1.45}, {7, 1, 1.65}};

enum {
    LEAST_T = 7,    /* of wide_tiles */
    QUICK_WIDE = 5, /* the smallest tile, whose kernel is soon built */
    QUICK_NARROW = 4,
    ITEMS_PER_UNIT = 32, /* so that a core that is held up leaves its share to the others */
    /* of layers whose weights come from memory or far caches: each chunk of an image takes a block's weights anew */
    FAR_ITEMS_PER_UNIT = 8,
};

int conv_columns(const struct conv_args *a, int pixels)
{
    return (pixels - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
}

int conv_least_columns(const struct conv_args *a)
{
    return conv_columns(a, LEAST_T);
}

double conv_tile_work(const struct problem *p, const struct conv_args *a, const struct conv_tile *tile,
                      size_t pixels)
{
    return tile->cost * (double)ceil_div(pixels, (size_t)tile->t) * tile->t *
           conv_blocks(a, tile->kv * p->block) * tile->kv;
}

struct conv_tile conv_best_tile(const struct problem *p, const struct conv_args *a, int max_columns,
                                conv_tile_known *known)
{
    const bool wide = p->block == 16;
    const struct conv_tile *tiles = wide ? wide_tiles : narrow_tiles, *best = NULL;
    const struct conv_tile *quick = &tiles[wide ? QUICK_WIDE : QUICK_NARROW];
    if (p->quick)
        return *quick;
    const int count = wide ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    bool best_known = false;
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        const struct conv_tile *tile = &tiles[i];
        const double work = conv_tile_work(p, a, tile, (size_t)a->out[2]);
        if (conv_columns(a, tile->t) > max_columns)
            continue;
        const bool is_known = known(p, a, tile);
        if (!best || (is_known && !best_known) || (is_known == best_known && work < least)) {
            least = work;
            best = tile;
            best_known = is_known;
        }
    }
    if (best && !best_known && conv_columns(a, quick->t) <= max_columns)
        return *quick;
    return best ? *best : tiles[1];
}

struct conv_packing conv_tile_packing(const struct problem *p, const struct conv_tile *tile, int c_block)
{
    return (struct conv_packing){.block = tile->kv * p->block, .c_block = c_block};
}

size_t conv_wanted_items(const struct problem *p)
{
    return (size_t)ITEMS_PER_UNIT * device_units(p->device);
}

/* Reading the input of a span once and all weights anew for every span, or the weights once and the input for every block of
 * filters: what moves fewer bytes. */
struct conv_shares conv_shares_of(const struct problem *p, size_t n, size_t tiles, size_t blocks,
                                  size_t input)
{
    const size_t weights = sizeof(float) * (size_t)shape_count(&p->in[1].shape);
    const size_t wanted = weights <= CONV_BLOCKED_NEAR_WEIGHTS_BYTES
                              ? conv_wanted_items(p)
                              : FAR_ITEMS_PER_UNIT * device_units(p->device);
    struct conv_shares s = {.per_item = ceil_div(tiles, ceil_div(wanted, blocks * n))};
    const size_t fits = CONV_BLOCKED_SPAN_BYTES / ceil_div(input, tiles),
                 spans = ceil_div(n * tiles, fits ? fits : 1);
    const bool once = n * input <= 2 * CONV_BLOCKED_SPAN_BYTES || !fits ||
                      weights + blocks * n * input <= spans * weights + n * input;
    if (!once && s.per_item > fits)
        s.per_item = fits;
    s.chunks = ceil_div(tiles, s.per_item);
    s.per_item = ceil_div(tiles, s.chunks); /* evenly: a last one of few tiles reads as many weights */
    s.span = once ? n * s.chunks : fits / s.per_item;
    return s;
}

size_t conv_channel_step(const struct problem *p, const struct conv_tile *tile, size_t taps, size_t blocks,
                         size_t most)
{
    const size_t bytes = sizeof(float) * (size_t)(p->block * tile->kv * p->block) * taps;
    if (blocks * bytes <= CONV_BLOCKED_WHOLE_BYTES)
        return blocks;
    return bytes < most ? most / bytes : 1;
}
