/* roi_align_blocked: regions of maps on channel blocks; see kernels/vision/roi_align_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/vision/roi.h"

enum { GROUPS_EACH = 8 }; /* of a core, where there are fewer regions */

/* Whether x lies on channel blocks is known when the planner comes to the node; forced, reorders see to it. */
static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    if (p->asked)
        *p->asked = true;
    PREFER(why, p->in[0].block > 0, "x does not lie on channel blocks");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct roi_args a = roi_align_args(p);
    const size_t regions = (size_t)p->out[0].shape.dim[0], blocks = (size_t)blocked_count(p, a.c);
    const size_t wanted = ceil_div(GROUPS_EACH * device_units(p->device), regions);
    a.pieces = (i64)(wanted < blocks ? wanted : blocks);
    struct step *s = emit_step(e, "roi_align_blocked", "main", regions * (size_t)a.pieces, 1);
    step_define(s, "V", p->block);
    roi_align_operands(s, p);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_roi_align_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, places of samples worked out once a region, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .emit = emit,
};
