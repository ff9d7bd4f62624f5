/* conv_transpose_depthwise: one channel and filter a group, gathered: for GPUs; see
 * kernels/conv/conv_transpose_depthwise.cl. */
#include "algos/conv/conv_transpose_common.h"

enum { MOST_TAPS = 81, LEAST_ROWS = 8, MOST_ROWS = 32 };

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D transposed convolutions are left to ref");
    REQUIRE(why, a.c == a.groups && a.k == a.groups, "each group must have one channel and one filter");
    REQUIRE(why, conv_taps(&a) <= MOST_TAPS && a.stride[1] <= MOST_ROWS,
            "windows of more than 81 taps, and strides of more than 32 rows, are left to ref");
    PREFER(why, !cpu_device(p->device), "pixels that work-items compute by themselves are meant for GPUs");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const int rows = (int)round_up(LEAST_ROWS, (size_t)a.stride[1]);
    const size_t blocks = ceil_div((size_t)(a.out[1] + a.pad[1] % a.stride[1]), (size_t)rows),
                 wg = any_group_size(p);
    const size_t items = (size_t)a.n * (size_t)a.c * blocks * (size_t)a.out[2];
    struct step *s = emit_step(e, "conv_transpose_depthwise", "main", ceil_div(items, wg), wg);
    step_define_id(s, "INDEX", items <= UINT32_MAX - wg ? "uint" : "ulong");
    step_define(s, "ROWS", rows);
    step_define(s, "KH", a.ker[1]);
    step_define(s, "KW", a.ker[2]);
    step_define(s, "SH", a.stride[1]);
    step_define(s, "SW", a.stride[2]);
    step_define(s, "DH", a.dil[1]);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_depthwise = {
    .name = "depthwise",
    .doc = "one channel and filter a group: each output from the few inputs that reach it",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
