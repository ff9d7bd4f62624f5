/* conv_transpose_depthwise_blocked: vectors of channels, tiles of a phase's pixels in registers; see
 * kernels/conv_cpu/conv_transpose_depthwise_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/conv/conv_transpose_common.h"

#define TILE 8 /* pixels of a row */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, conv_is_depthwise(&a) && a.k == a.c, "each group must have one channel and one filter");
    PREFER(why, a.c * 2 >= p->block, FEW_CHANNELS);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_transpose_args_of(p);
    const size_t planes = (size_t)a.n * (size_t)blocked_count(p, a.c), rows = (size_t)a.out[1];
    const struct conv_transpose_depthwise_args args = {
        .src_n = a.src_n,
        .dst_n = a.dst_n,
        .add_n = a.add_n,
        .c = a.c,
        .rows = blocked_run(p, planes, rows, 1),
        .phases = conv_phases_of(&a),
        .epi = blocked_epilogue_of(p, &p->in[2]),
    };
    const int packed =
        emit_depthwise_packed(e, p, &a); /* with one filter a channel the order is that of conv */
    struct step *s = emit_step(e, "conv_transpose_depthwise_blocked", "main",
                               planes * ceil_div(rows, (size_t)args.rows), 1);
    step_define(s, "V", p->block);
    step_define(s, "T", TILE);
    blocked_step(s, p, packed, &args, sizeof args);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_depthwise_blocked = {
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
