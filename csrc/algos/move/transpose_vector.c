/* transpose_vector: tiles of whole vectors, for CPU devices; see kernels/move/transpose_vector.cl. */
#include "algos/move/transposes.h"

enum { SPAN = 4 }; /* tiles side by side that a work-item turns */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct strided_args a = transpose_view(p);
    REQUIRE(why, p->block > 0, "registers turn tiles on CPU devices with vectors of 8 or 16 floats");
    if (!transpose_fits(p, &a, why))
        return false;
    PREFER(why, a.size[strided_contiguous_dim(&a)] >= p->block && a.size[a.rank - 1] >= p->block,
           "a side is shorter than a vector");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct strided_args v = transpose_view(p);
    size_t tiles;
    const struct transpose_args a = transpose_args_of(&v, p->block, SPAN * p->block, &tiles);
    struct step *s = emit_step(e, "transpose_vector", "main", tiles, 1);
    step_define(s, "V", p->block);
    step_define(s, "SPAN", SPAN);
    transpose_finish(s, p, &a);
}

const struct algo_def algo_transpose_vector = {
    .name = "vector",
    .doc = "tiles of whole vectors, turned in registers",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
