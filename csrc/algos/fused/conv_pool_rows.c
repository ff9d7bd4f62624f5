/* conv_pool_rows: the register tiles of conv_rows, pooled before they are stored; see
 * kernels/fused/conv_pool_rows.cl. */
#include "algos/cost/cost.h"
#include "algos/fused/conv_pool_common.h"
#include "algos/conv_cpu/conv_rows.h"

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    REQUIRE(why, conv_pool_side_by_side(p), NOT_SIDE_BY_SIDE);
    REQUIRE(why, row_tile_fits(&a.conv), "the input row of a tile must fit 128 columns");
    const struct row_tile tile = row_tile_best(p, &a.conv, conv_pool_window(p, 1));
    DECIDE(p, tile);
    PREFER(why, conv_pool_same_conv(p, &algo_conv_rows), CONVOLVED_FASTER);
    return true;
}

static size_t workspace(const struct problem *p)
{
    struct row_tile tile;
    DECIDED(p, tile);
    return conv_pool_packing_workspace(p, row_tile_packing(&tile));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_pool_args a = conv_pool_args_of(p);
    struct row_tile tile;
    DECIDED(p, tile);
    const size_t groups = (size_t)conv_blocks(&a.conv, tile.kv * 16) * (size_t)a.conv.n *
                          (size_t)a.pooled[0] * row_tile_count(&a.conv, &tile, conv_pool_window(p, 1));
    struct step *s = emit_conv_pool(e, p, "conv_pool_rows", groups, 1, row_tile_packing(&tile));
    row_tile_define(s, &a.conv, &tile);
}

const struct algo_def algo_conv_pool_rows = {
    .name = "rows",
    .doc = "register tiles of row pixels x filters, pooled in registers",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = ROWS_EFFORT_PERCENT,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
