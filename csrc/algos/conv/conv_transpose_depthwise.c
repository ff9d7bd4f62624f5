/* conv_transpose_depthwise: one channel and filter a group, gathered: for GPUs; see
 * kernels/conv/conv_transpose_depthwise.cl. */
#include "algos/conv/conv_transpose_common.h"

enum { MOST_TAPS = 81 };

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D transposed convolutions are left to ref");
    REQUIRE(why, a.c == a.groups && a.k == a.groups, "each group must have one channel and one filter");
    REQUIRE(why, conv_taps(&a) <= MOST_TAPS && a.stride[1] <= MOST_COLUMN_STRIDE,
            "windows of more than 81 taps, and strides of more than 32 rows, are left to ref");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    struct step *s = conv_transpose_columns(e, p, "conv_transpose_depthwise", &a);
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
