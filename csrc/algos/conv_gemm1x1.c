/* conv_gemm1x1: a 1x1 window as a matrix product through local memory; see kernels/conv_gemm1x1.cl. */
#include "algos/conv_common.h"

static size_t groups_of(const struct conv_args *a, int tile)
{
    const size_t pixels = (size_t)a->n * (size_t)a->out[1] * (size_t)a->out[2];
    return (size_t)conv_blocks(a, tile) * ceil_div(pixels, (size_t)tile);
}

/* Large tiles reuse more, but spill on CPU devices and leave compute units idle when they are few. */
static int tile_of(const struct problem *p, const struct conv_args *a)
{
    return !conv_on_cpu(p) && groups_of(a, 128) >= 2 * (size_t)p->device->compute_units ? 128 : 64;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to ref");
    REQUIRE(why, a.ker[1] == 1 && a.ker[2] == 1, "the window must be 1x1");
    REQUIRE(why,
            (a.out[1] - 1) * a.stride[1] < a.in[1] && (a.out[2] - 1) * a.stride[2] < a.in[2] &&
                a.pad[1] == 0 && a.pad[2] == 0,
            "padding must be 0");
    REQUIRE(why, a.groups == 1, "groups must be 1");
    PREFER(why, !conv_on_cpu(p), "tiles in local memory are meant for GPUs");
    return true;
}

static struct conv_packing packing_of(int tile)
{
    return (struct conv_packing){.block = tile, .tap_major = true};
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return conv_packing_workspace(p, &a, packing_of(tile_of(p, &a)));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const int tile = tile_of(p, &a);
    const int packed = emit_conv_packed(e, p, &a, packing_of(tile));
    struct step *s = emit_step(e, "conv_gemm1x1", "main", groups_of(&a, tile), GROUP_SIZE);
    step_define(s, "BM", tile);
    step_define(s, "BN", tile);
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
