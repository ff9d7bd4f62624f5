/* grid_sample_columns: places worked out once for all channels; see kernels/vision/grid_sample_columns.cl. */
#include "algos/vision/grid.h"

enum { CUBIC = 2, GROUPS_EACH = 8 }; /* groups of a core, where there are fewer rows */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct grid_sample_attrs *attrs = p->attrs;
    REQUIRE(why, p->in[0].shape.rank == 4 && attrs->mode != CUBIC, "volumes and cubic taps are left to ref");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct grid_args a = grid_args_of(p);
    const size_t lines = (size_t)p->in[0].shape.dim[0] * (size_t)a.out[1];
    const size_t wanted = ceil_div(GROUPS_EACH * device_units(p->device), lines);
    a.pieces = (i64)(wanted < (size_t)a.c ? wanted : (size_t)a.c);
    struct step *s = emit_step(e, "grid_sample_columns", "main", lines * (size_t)a.pieces, 1);
    grid_step(s, p, &a);
}

const struct algo_def algo_grid_sample_columns = {
    .name = "columns",
    .doc = "what columns read is worked out once for all channels",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
