/* transpose_tiled: transposes that move the innermost dimension, by tiles; see kernels/move/transpose_tiled.cl. */
#include "algos/move/transposes.h"

enum {
    TILE = 32,
    WORTH = 16,      /* a shorter side leaves most of a tile empty */
    MOST_SPAN = 4,   /* tiles of a group: what fits its registers and local memory eight times over */
    LEAST_GROUPS = 4 /* of a compute unit, before groups take several tiles */
};

/* Tiles along high that a group takes: several hide more of the memory's latency, if there are enough for all units. */
static int span_of(const struct problem *p, const struct strided_args *v, int high)
{
    const int64_t across = (int64_t)ceil_div((size_t)v->size[high], TILE);
    const int64_t tiles = shape_count(&p->out[0].shape) / (TILE * TILE);
    const int64_t wanted = LEAST_GROUPS * (int64_t)device_units(p->device);
    int span = MOST_SPAN;
    while (span > 1 && (tiles / span < wanted || (across % span != 0 && across < 4 * span)))
        span /= 2;
    return span;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct strided_args a = transpose_view(p);
    if (!transpose_fits(p, &a, why))
        return false;
    PREFER(why, !cpu_device(p->device), "a CPU's registers turn tiles faster than local memory");
    PREFER(why, a.size[strided_contiguous_dim(&a)] >= WORTH && a.size[a.rank - 1] >= WORTH,
           "a side is shorter than half a tile");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct strided_args v = transpose_view(p);
    const int span = span_of(p, &v, strided_contiguous_dim(&v));
    size_t tiles;
    const struct transpose_args a = transpose_args_of(&v, span * TILE, TILE, &tiles);
    struct step *s = emit_step(e, "transpose_tiled", "main", tiles, GROUP_SIZE);
    step_define(s, "TILE", TILE);
    step_define(s, "SPAN", span);
    transpose_finish(s, p, &a);
}

const struct algo_def algo_transpose_tiled = {
    .name = "tiled",
    .doc = "tiles through local memory, contiguous on both sides",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
