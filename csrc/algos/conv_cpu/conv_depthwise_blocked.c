/* conv_depthwise_blocked: vectors of channels, tiles of row pixels in registers; see kernels/conv_cpu/conv_depthwise_blocked.cl. */
#include "algos/common/blocked.h"
#include "conv_cpu/conv_cpu_args.h"

#define TILE 7 /* pixels; divides the widths of most nets */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    const int each = a.k / a.groups;
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, conv_is_depthwise(&a) && (each == 1 || each == 2 || each == 4),
            "each group must have one channel and one, two or four filters");
    PREFER(why, a.k * 2 >= p->block, FEW_CHANNELS);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args c = conv_args_of(p);
    const size_t planes = (size_t)c.n * (size_t)blocked_count(p, c.k), rows = (size_t)c.out[1];
    const struct depthwise_args a = depthwise_args_of(p, &c, blocked_run(p, planes, rows, 1));
    const int packed = emit_depthwise_packed(e, p, &c);
    struct step *s =
        emit_step(e, "conv_depthwise_blocked", "main", planes * ceil_div(rows, (size_t)a.rows), 1);
    define_depthwise(s, p, &c);
    step_define(s, "DT", TILE);
    if (c.k > c.c)
        step_define(s, "MULT", c.k / c.c);
    blocked_conv_step(s, p, packed, &a, sizeof a);
}

const struct algo_def algo_conv_depthwise_blocked = {
    .name = "depthwise_blocked",
    .doc = "one channel a group, on channel blocks: memory bound",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .workspace = depthwise_workspace,
    .emit = emit,
};
