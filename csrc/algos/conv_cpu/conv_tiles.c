/* conv_tiles.c: register tiles of the convolutions with blocked results; see conv_tiles.h. */
#include "algos/conv_cpu/conv_tiles.h"

/* What 32 registers of 16 floats hold, and 16 of 8. Two vectors of filters keep the loads behind the multiply-adds;
 * 7 columns suit maps of 7 x 7, and 8 those of powers of two. */
static const struct conv_tile wide_tiles[] = {{14, 2, 1.0}, {8, 2, 1.04},  {7, 2, 1.05},
                                              {28, 1, 1.2}, {14, 1, 1.34}, {7, 1, 1.5}};
static const struct conv_tile narrow_tiles[] = {{14, 1, 1.0}, {7, 1, 1.1}};

enum {
    LEAST_T = 7,         /* of both tables */
    ITEMS_PER_UNIT = 32, /* so that a core that is held up leaves its share to the others */
};

int conv_columns(const struct conv_args *a, int pixels)
{
    return (pixels - 1) * a->stride[2] + (a->ker[2] - 1) * a->dil[2] + 1;
}

int conv_least_columns(const struct conv_args *a)
{
    return conv_columns(a, LEAST_T);
}

struct conv_tile conv_best_tile(const struct problem *p, const struct conv_args *a, int max_columns)
{
    const bool wide = p->block == 16;
    const struct conv_tile *tiles = wide ? wide_tiles : narrow_tiles, *best = NULL;
    const int count = wide ? COUNT_OF(wide_tiles) : COUNT_OF(narrow_tiles);
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        const struct conv_tile *tile = &tiles[i];
        const double work = tile->cost * (double)ceil_div((size_t)a->out[2], (size_t)tile->t) * tile->t *
                            conv_blocks(a, tile->kv * p->block) * tile->kv;
        if (conv_columns(a, tile->t) <= max_columns && (!best || work < least)) {
            least = work;
            best = tile;
        }
    }
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
