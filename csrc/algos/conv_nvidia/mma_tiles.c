/* mma_tiles.c: tiles of products whose operands lie in local memory as they came; see mma_tiles.h. */
#include "algos/conv_nvidia/mma_tiles.h"
#include "algos/cost/cost.h"

const struct mma_tile_shape mma_tile_shapes[MMA_TILE_SHAPES] = {
    {128, 128, 256, 2, 16, 1, 1220.0f, 1220.0f, 2800.0f, 800.0f, 1146.0f},
    {128, 64, 128, 2, 16, 2, 675.0f, 675.0f, 1400.0f, 480.0f, 560.0f},
    {64, 128, 128, 1, 16, 2, 675.0f, 675.0f, 1400.0f, 440.0f, 545.0f},
    {64, 64, 128, 2, 16, 3, 413.0f, 661.0f, 700.0f, 340.0f, 540.0f},
    {32, 64, 128, 1, 32, 5, 198.0f, 257.0f, 350.0f, 190.0f, 257.0f},
    {64, 32, 128, 2, 32, 5, 198.0f, 257.0f, 350.0f, 190.0f, 257.0f},
    {32, 32, 128, 2, 32, 7, 121.0f, 193.0f, 175.0f, 121.0f, 193.0f},
};

float mma_tiles_time(const struct problem *p, const struct mma_tile_shape *t, enum mma_products products,
                     size_t groups, int share)
{
    const bool one = products != MMA_FLOAT32;
    const size_t each = ceil_div(groups, p->device->compute_units);
    const float busy = (float)each * (one ? t->one_busy : t->busy),
                alone = (float)ceil_div(each, (size_t)t->resident) * (one ? t->one_alone : t->alone);
    return (float)(share * t->chunk / MMA_DEPTH_UNIT) * (busy > alone ? busy : alone) + MMA_START_NS +
           t->start * (float)each;
}

void mma_tile_defines(struct step *s, const struct mma_tile_shape *t)
{
    step_define(s, "BM", t->rows);
    step_define(s, "BN", t->columns);
    step_define(s, "BK", t->chunk);
    step_define(s, "WM", t->wm);
}
