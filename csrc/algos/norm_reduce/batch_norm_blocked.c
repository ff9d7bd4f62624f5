/* batch_norm_blocked: normalisation by running statistics on channel blocks; see kernels/norm_reduce/batch_norm_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/common/rows.h"

#define SHORTEST_RUN 64 /* pixels: the scales are computed anew for each run */

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct norm_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct batch_norm_blocked_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .c = x->shape.dim[1],
        .pixels = (i32)shape_count_from(&x->shape, 2),
        .eps = attrs->eps,
        .epi = blocked_epilogue_of(p, NULL),
    };
    const size_t planes = (size_t)x->shape.dim[0] * (size_t)blocked_count(p, a.c), pixels = (size_t)a.pixels;
    a.run = blocked_run(p, planes, pixels, SHORTEST_RUN);
    struct step *s = emit_step(e, "batch_norm_blocked", "main", planes * ceil_div(pixels, (size_t)a.run), 1);
    step_define(s, "V", p->block);
    step_read_in_place(s, x->view);
    for (int i = 1; i < 5; i++) /* weight, bias, mean, variance */
        step_read(s, p->in[i].view);
    float p0, p1;
    step_define_id(s, "EPI_ACT", act_identifier(act_as_clip(p->act, &p0, &p1)));
    step_read_added(s, p);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&y->shape));
}

const struct algo_def algo_batch_norm_blocked = {
    .name = "blocked",
    .doc = "one scale and shift a channel, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .stores_in_place = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .emit = emit,
};
