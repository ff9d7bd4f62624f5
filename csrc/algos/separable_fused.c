/* separable_fused: both convolutions of a pixel tile in one group, the middle in local memory; see
 * kernels/separable_fused.cl. */
#include "algos/separable_common.h"

#define MID_FLOATS 8192 /* of local memory: pixels * middle channels */

/* Pixels of a tile whose middle channels all fit, 0 when none do. */
static int pixels_of(const struct problem *p)
{
    const int mid = p->in[1].shape.dim[0];
    if (p->device->local_mem_bytes <= MID_FLOATS * sizeof(float))
        return 0;
    for (int pixels = 32; pixels >= 8; pixels /= 2)
        if (mid * pixels <= MID_FLOATS)
            return pixels;
    return 0;
}

static size_t groups_of(const struct problem *p, int pixels)
{
    const struct clcnn_shape *y = &p->out[0].shape;
    return (size_t)y->dim[0] * ceil_div((size_t)shape_count_from(y, 2), (size_t)pixels);
}

static struct conv_packing packing_of(int pixels)
{
    return (struct conv_packing){.block = GROUP_SIZE / (pixels / 4) * 4, .tap_major = false};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const int pixels = pixels_of(p);
    REQUIRE(why, conv_is_2d(p), "3-D convolutions are left to split");
    REQUIRE(why, pixels > 0, "a tile of 8 pixels of all middle channels must fit 32 KiB of local memory");
    PREFER(why, groups_of(p, pixels) >= p->device->compute_units,
           "too few pixel tiles for the compute units");
    PREFER(why, !conv_on_cpu(p), "tiles in local memory are meant for GPUs");
    return true;
}

static size_t workspace(const struct problem *p)
{
    return separable_packing_workspace(p, packing_of(pixels_of(p)));
}

static void emit(const struct problem *p, struct emit *e)
{
    const int pixels = pixels_of(p);
    struct step *s =
        emit_separable(e, p, "separable_fused", groups_of(p, pixels), GROUP_SIZE, packing_of(pixels));
    step_define(s, "PX", pixels);
    step_define(s, "CHANNELS", MID_FLOATS / pixels);
}

const struct algo_def algo_separable_fused = {
    .name = "fused",
    .doc = "one kernel, the middle of a pixel tile in local memory",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
