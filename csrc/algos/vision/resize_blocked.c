/* resize_blocked: resampling on channel blocks; see kernels/vision/resize_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/vision/resize.h"

/* Whether x lies on channel blocks is known when the planner comes to the node; forced, reorders see to it. */
static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, resize_is_plain(p->attrs), "wide kernels and crops have their own way");
    if (p->asked)
        *p->asked = true;
    PREFER(why, p->in[0].block > 0, "x does not lie on channel blocks");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct resize_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const struct resize_map map = resize_map_of(p);
    struct resize_blocked_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .blocks = blocked_count(p, x->shape.dim[1]),
        .linear = attrs->mode == RESIZE_LINEAR,
        .dims = x->shape.rank - 2,
    };
    for (int d = 0; d < 3; d++) {
        a.in[d] = map.in[d];
        a.out[d] = map.out[d];
        a.mul[d] = map.line[d].mul;
        a.add[d] = map.line[d].add;
        a.div[d] = map.line[d].div;
    }
    const size_t planes = (size_t)x->shape.dim[0] * (size_t)a.blocks,
                 rows = (size_t)a.out[0] * (size_t)a.out[1];
    a.run = blocked_run(p, planes, rows, 1);
    struct step *s = emit_step(e, "resize_blocked", "main", planes * ceil_div(rows, (size_t)a.run), 1);
    step_define(s, "V", p->block);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_resize_blocked = {
    .name = "blocked",
    .doc = "vectors of channels at exact coordinates, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .emit = emit,
};
