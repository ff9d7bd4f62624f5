/* conv_gemm1x1: a 1x1 window as a matrix product through local memory; see kernels/conv_gemm1x1.cl. */
#include "algos/conv_common.h"

#define TILE 64 /* pixels, and filters, of a group's tile of the result */

static const struct conv_packing packing = {.block = TILE, .tap_major = true};

/* Every pixel that is read lies in the image, at the front as at the end. */
static bool unpadded(const struct conv_args *a)
{
    return a->pad[1] == 0 && a->pad[2] == 0 && (a->out[1] - 1) * a->stride[1] < a->in[1] &&
           (a->out[2] - 1) * a->stride[2] < a->in[2];
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    REQUIRE(why, a.ker[1] == 1 && a.ker[2] == 1, "the window must be 1x1");
    REQUIRE(why, unpadded(&a), "padding must be 0");
    REQUIRE(why, a.groups == 1, "groups must be 1");
    PREFER(why, !conv_on_cpu(p), "tiles in local memory are meant for GPUs");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return conv_packing_workspace(p, &a, packing);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const int packed = emit_conv_packed(e, p, &a, packing);
    const size_t pixels = (size_t)a.n * (size_t)a.out[1] * (size_t)a.out[2];
    struct step *s = emit_step(e, "conv_gemm1x1", "main",
                               (size_t)conv_blocks(&a, TILE) * ceil_div(pixels, TILE), GROUP_SIZE);
    step_define(s, "BM", TILE);
    step_define(s, "BN", TILE);
    step_read(s, p->in[0].slot);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].slot);
    step_args(s, &a, sizeof a);
    conv_cost(s, p);
}

const struct algo_def algo_conv_gemm1x1 = {
    .name = "gemm1x1",
    .doc = "1x1 window as a matrix product through local memory, any stride",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
