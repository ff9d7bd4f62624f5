/* conv_filter_grad_depthwise: the gradient of filters with one channel each, for GPUs; see
 * kernels/conv/conv_filter_grad_depthwise.cl. */
#include "algos/common/rows.h"
#include "algos/conv/conv_filter_grad.h"
#include "algos/conv/window_tile.h"
#include "conv/conv_tile_args.h"

/* Taps that a work-item has sums of, and those with many rows a tile; groups that a compute unit is given; tiles of a work-item
 * at least. */
enum { MOST_TAPS = 49, FEW_TAPS = 25, GROUPS_EACH = 16, LEAST_EACH = 4 };

/* Rows of a tile: where windows are spread the rows under it are not shared. */
static int rows_of(const struct conv_args *a)
{
    return a->dil[1] > 1 ? 1 : conv_taps(a) <= FEW_TAPS ? 4 : 2;
}

static struct filter_grad_parts_args args_of(const struct problem *p)
{
    struct filter_grad_parts_args f = {.conv = conv_filter_grad_args(p)};
    const size_t wg = any_group_size(p), tiles = window_tiles(&f.conv, rows_of(&f.conv));
    const size_t wanted = ceil_div(device_units(p->device) * GROUPS_EACH, (size_t)f.conv.k);
    const size_t most = ceil_div(tiles, wg * LEAST_EACH), parts = wanted < most ? wanted : most;
    f.chunk = (int64_t)round_up(ceil_div(tiles, parts), wg);
    f.parts = (int32_t)ceil_div(tiles, (size_t)f.chunk);
    return f;
}

static size_t parts_bytes(const struct filter_grad_parts_args *f)
{
    return sizeof(float) * (size_t)f->parts * (size_t)f->conv.k * (size_t)conv_taps(&f->conv);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_filter_grad_args(p);
    REQUIRE(why, conv_is_depthwise(&a), "each group must have one input channel");
    REQUIRE(why, !conv_is_volume(&a), "windows with a depth are left to others");
    REQUIRE(why, conv_taps(&a) <= MOST_TAPS, "the sums of more than 49 taps do not fit registers");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct filter_grad_parts_args f = args_of(p);
    return parts_bytes(&f);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct filter_grad_parts_args f = args_of(p);
    const int parts = emit_workspace(e, parts_bytes(&f));
    struct step *s = emit_step(e, "conv_filter_grad_depthwise", "main", (size_t)f.conv.k * (size_t)f.parts,
                               any_group_size(p));
    step_define_window(s, &f.conv, rows_of(&f.conv));
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, parts);
    step_args(s, &f, sizeof f);
    rows_cost(s, p, conv_macs(&f.conv));
    emit_filter_grad_sum(e, p, &f.conv, f.parts, parts);
}

const struct algo_def algo_conv_filter_grad_depthwise = {
    .name = "depthwise",
    .doc = "one channel a filter: groups share the outputs, work-items have sums for all taps",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
