/* conv_depthwise_tile: tiles of outputs in registers, over which a window of known size slides; see
 * kernels/conv/conv_depthwise_tile.cl. */
#include "algos/conv/conv_common.h"
#include "algos/conv/window_tile.h"

enum { ENOUGH = 512 };

static size_t items_of(const struct conv_args *a, int rows)
{
    return (size_t)a->k * window_tiles(a, rows);
}

/* Rows of a tile, which share what they read, if there are enough other tiles to hide the time that reading takes. Single pixels
 * of many rows are spread over more memory at once than quads are. */
static int rows_of(const struct problem *p, const struct conv_args *a)
{
    const int rows = a->in[2] % 4 == 0 && a->out[2] % 4 == 0 ? 4 : 2;
    const bool enough = items_of(a, rows) >= ENOUGH * (size_t)device_units(p->device);
    return enough && a->out[1] >= rows ? rows : 1;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    if (!conv_depthwise_applicable(p, why))
        return false;
    REQUIRE(why, window_tile_fits(&a), WINDOW_TILE_FITS);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const int rows = rows_of(p, &a);
    const size_t wg = any_group_size(p);
    struct step *s = emit_step(e, "conv_depthwise_tile", "main", ceil_div(items_of(&a, rows), wg), wg);
    step_define_window(s, &a, rows);
    step_read_map(s, &p->in[0]);
    step_read(s, p->in[1].view);
    step_epilogue(s, p, &p->in[2]);
    step_write_map(s, &p->out[0]);
    step_args(s, &a, sizeof a);
    conv_cost(s, p);
}

const struct algo_def algo_conv_depthwise_tile = {
    .name = "depthwise_tile",
    .doc = "one input channel a group: a tile of outputs in registers under a sliding window, memory bound",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = applicable,
    .emit = emit,
};
