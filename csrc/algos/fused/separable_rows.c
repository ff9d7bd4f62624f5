/* separable_rows: the fused form for CPU devices: row tiles, one work-item each; see
 * kernels/fused/separable_rows.cl. */
#include "algos/cost/cost.h"
#include "algos/fused/separable_common.h"

#define COLUMNS 16 /* of a row: the pixels of a tile */

/* Filters at a time, a vector or two of sums each: few where registers are, or filters. */
static int filters_of(const struct problem *p)
{
    return p->device->float_width < 16 || p->out[0].shape.dim[1] <= 4 ? 4 : 8;
}

struct scheme {
    int filters;
    int channels; /* of the middle, at most */
};

/* Two sizes of the middle, so that few variants are built; 0: it does not fit. */
static int channels_of(const struct problem *p)
{
    const int mid = p->in[1].shape.dim[0], channels = mid <= 512 ? 512 : 2048;
    return mid <= channels && p->device->local_mem_bytes >= sizeof(float) * COLUMNS * (size_t)channels
               ? channels
               : 0;
}

static struct conv_packing packing_of(const struct scheme *s)
{
    return (struct conv_packing){.block = s->filters, .tap_major = false};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct scheme s = {filters_of(p), channels_of(p)};
    REQUIRE(why, s.channels > 0, "a row tile of up to 2048 middle channels must fit local memory");
    DECIDE(p, s);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct scheme s;
    DECIDED(p, s);
    return separable_packing_workspace(p, packing_of(&s));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct separable_args a = separable_args_of(p);
    struct scheme s;
    DECIDED(p, s);
    const size_t groups = (size_t)a.n * (size_t)a.out[0] * ceil_div((size_t)a.out[1], (size_t)COLUMNS);
    struct step *step = emit_separable(e, p, "separable_rows", groups, 1, packing_of(&s));
    step_define(step, "KB", s.filters);
    step_define(step, "CHANNELS", s.channels);
}

const struct algo_def algo_separable_rows = {
    .name = "rows",
    .doc = "one kernel of row tiles, the middle in local memory",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = ROWS_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
