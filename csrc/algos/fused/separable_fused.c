/* separable_fused: a depthwise convolution on the way into the tiles of a matrix product; see
 * kernels/fused/separable_fused.cl. */
#include "algos/cost/cost.h"
#include "algos/fused/separable_common.h"

#define PIXELS 64 /* of a tile */

/* Filters of a tile: blocks beyond the first compute their middle anew, so as few as the kernel offers. */
static int filters_of(const struct problem *p)
{
    return p->out[0].shape.dim[1] > 64 ? 128 : 64;
}

static struct conv_packing packing_of(int filters)
{
    return (struct conv_packing){.block = filters, .tap_major = true};
}

static bool applicable(const struct problem *p, struct why *why)
{
    const int filters = filters_of(p);
    DECIDE(p, filters);
    PREFER(why, p->in[1].shape.dim[0] <= 32 && p->out[0].shape.dim[1] <= 128,
           "more than 32 middle channels or 128 filters: two kernels are faster");
    return true;
}

static size_t workspace(const struct problem *p)
{
    int filters;
    DECIDED(p, filters);
    return separable_packing_workspace(p, packing_of(filters));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct clcnn_shape *y = &p->out[0].shape;
    int filters;
    DECIDED(p, filters);
    const size_t tiles = ceil_div((size_t)y->dim[0] * (size_t)shape_count_from(y, 2), PIXELS);
    struct step *s =
        emit_separable(e, p, "separable_fused", ceil_div((size_t)y->dim[1], (size_t)filters) * tiles,
                       GROUP_SIZE, packing_of(filters));
    step_define(s, "BM", filters);
    step_define(s, "BN", PIXELS);
}

const struct algo_def algo_separable_fused = {
    .name = "fused",
    .doc = "one kernel, the middle of a pixel tile in local memory",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = DIRECT_EFFORT_PERCENT,
    .fp16 = FP16_CONV,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
