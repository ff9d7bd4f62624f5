/* transpose_vector: tiles of whole vectors, for CPU devices; see kernels/move/transpose_vector.cl. */
#include "algos/move/transposes.h"

enum { SPAN = 4 }; /* tiles side by side that a work-item turns */

/* Of the shorter side. */
static int vector_of(const struct problem *p, const struct strided_args *a)
{
    const int high = a->size[strided_contiguous_dim(a)], wide = a->size[a->rank - 1];
    return rows_vector(p, high < wide ? high : wide);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct strided_args a = transpose_view(p);
    REQUIRE(why, p->block > 0, "registers turn tiles on CPU devices with vectors of 8 or 16 floats");
    if (!transpose_fits(p, &a, why))
        return false;
    const int vector = vector_of(p, &a);
    PREFER(why, a.size[strided_contiguous_dim(&a)] >= vector && a.size[a.rank - 1] >= vector,
           "a side is shorter than a vector");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct strided_args v = transpose_view(p);
    const int vector = vector_of(p, &v);
    size_t tiles;
    const struct transpose_args a = transpose_args_of(&v, vector, SPAN * vector, &tiles);
    struct step *s = emit_step(e, "transpose_vector", "main", tiles, 1);
    step_define(s, "V", vector);
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
