/* depthwise_nhwc_rows: vectors of channels, tiles of row pixels in registers; see kernels/conv_cpu/depthwise_nhwc_rows.cl. */
#include "algos/common/blocked.h"
#include "algos/conv/depthwise_nhwc.h"
#include "conv_cpu/conv_cpu_args.h"

#define TILE 7 /* pixels, as of conv_depthwise_blocked */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = depthwise_nhwc_args(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, a.c % p->block == 0, "channels must be a multiple of a vector's floats");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = depthwise_nhwc_args(p);
    return depthwise_packing_workspace(p, &a);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args c = depthwise_nhwc_args(p);
    const size_t rows = (size_t)c.out[1];
    const struct depthwise_args a = depthwise_args_of(p, &c, blocked_run(p, (size_t)c.n, rows, 1));
    const int packed = emit_depthwise_packed(e, p, &c);
    struct step *s =
        emit_step(e, "depthwise_nhwc_rows", "main", (size_t)c.n * ceil_div(rows, (size_t)a.rows), 1);
    define_depthwise(s, p, &c);
    step_define(s, "DT", TILE);
    blocked_step(s, p, packed, &a, sizeof a);
    depthwise_nhwc_cost(s, p, &c);
}

const struct algo_def algo_depthwise_nhwc_rows = {
    .name = "rows",
    .doc = "vectors of channels, tiles of row pixels in registers: memory bound",
    .devices = DEVICES_CPU,
    .vectors = true,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
