/* conv_implicit: a matrix product whose columns are gathered on the way to local memory; see
 * kernels/conv_implicit.cl. */
#include "algos/conv_implicit.h"

#define TILE 64 /* pixels, and filters, of a group's tile of the result */

static struct conv_packing packing_of(int points)
{
    return (struct conv_packing){.block = TILE, .tap_major = true, .points = points};
}

size_t implicit_workspace(const struct problem *p, const struct conv_args *a, int points)
{
    return conv_packing_workspace(p, a, packing_of(points));
}

struct step *emit_implicit(struct emit *e, const struct problem *p, const struct conv_args *a, int points)
{
    const int packed = emit_conv_packed(e, p, a, packing_of(points));
    const size_t pixels = (size_t)a->n * (size_t)a->out[1] * (size_t)a->out[2];
    struct step *s = emit_step(e, "conv_implicit", "main",
                               (size_t)conv_blocks(a, TILE) * ceil_div(pixels, TILE), GROUP_SIZE);
    step_define(s, "BM", TILE);
    step_define(s, "BN", TILE);
    step_read(s, p->in[0].slot);
    step_read(s, packed);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].slot);
    step_args(s, a, sizeof *a);
    return s;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct conv_args a = conv_args_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to im2col and ref");
    PREFER(why, a.k / a.groups > 32, "32 filters a group or fewer leave half of the tile empty");
    PREFER(why, !conv_on_cpu(p), "tiles in local memory are meant for GPUs");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct conv_args a = conv_args_of(p);
    return implicit_workspace(p, &a, 0);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    conv_cost(emit_implicit(e, p, &a, 0), p);
}

const struct algo_def algo_conv_implicit = {
    .name = "implicit",
    .doc = "implicit GEMM: columns gathered on the way to local memory",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
