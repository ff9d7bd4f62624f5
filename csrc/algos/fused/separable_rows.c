/* separable_rows: the fused form for CPU devices: row tiles, one work-item each; see
 * kernels/fused/separable_rows.cl. */
#include "algos/cost/cost.h"
#include "algos/fused/separable_common.h"

#define COLUMNS 16 /* of a middle row */

/* As in conv_rows.c: KV * T = 28 accumulators; the narrower tile where rows are short. */
static const struct tile {
    int t, kv;
} wide = {14, 2}, short_rows = {7, 4}, narrow_machine = {7, 1};

static struct tile tile_of(const struct problem *p)
{
    const struct separable_args a = separable_args_of(p);
    const size_t q = (size_t)a.out[1];
    if (p->device->float_width < 16)
        return narrow_machine;
    return ceil_div(q, 7) * 7 < ceil_div(q, 14) * 14 && a.k > 32 ? short_rows : wide;
}

struct scheme {
    struct tile tile;
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

static struct conv_packing packing_of(const struct tile *tile)
{
    return (struct conv_packing){.block = tile->kv * 16, .tap_major = false};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct scheme s = {tile_of(p), channels_of(p)};
    REQUIRE(why, s.channels > 0, "a row tile of up to 2048 middle channels must fit local memory");
    DECIDE(p, s);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct scheme s;
    DECIDED(p, s);
    return separable_packing_workspace(p, packing_of(&s.tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct separable_args a = separable_args_of(p);
    struct scheme s;
    DECIDED(p, s);
    const size_t groups = (size_t)a.n * (size_t)a.out[0] * ceil_div((size_t)a.out[1], (size_t)s.tile.t);
    struct step *step = emit_separable(e, p, "separable_rows", groups, 1, packing_of(&s.tile));
    step_define(step, "T", s.tile.t);
    step_define(step, "KV", s.tile.kv);
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
