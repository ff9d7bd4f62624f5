/* squeeze_excite_fused: means by many groups, and both layers of an image by the last of these; see
 * kernels/fused/squeeze_excite_fused.cl. */
#include <stdio.h>

#include "algos/cost/cost.h"
#include "algos/fused/squeeze_excite_common.h"
#include "fused/squeeze_excite_args.h"

enum {
    FEW = 8,     /* pixels that a work-item adds up, where there are enough of them */
    LARGE = 512, /* work-items of a group that is not chained: they have enough reads of weights under way */
    SEVERAL = 4, /* channels of a work-item, where there are enough of them for UNIT_GROUPS of a unit */
    UNIT_GROUPS = 4,
    LEAST_ROOM = 512, /* floats in local memory; few sizes, so that kernels are shared */
    MOST_ROOM = 4096,
};

static bool joins(const struct problem *p)
{
    return device_traits(p->device).tensor_cores;
}

static size_t group_size(const struct problem *p)
{
    return joins(p) && !p->chained ? LARGE : any_group_size(p);
}

/* Work-items of a channel: one of four numbers, so that kernels are shared. */
static int lanes_of(const struct problem *p)
{
    const int64_t length = shape_count_from(&p->in[0].shape, 2);
    const int most = (int)group_size(p);
    int lanes = length < FEW ? 1 : 32;
    while (lanes > 1 && lanes < most && (int64_t)lanes * FEW < length)
        lanes = 4 * lanes < most ? 4 * lanes : most;
    return lanes;
}

/* Channels of a work-item: few groups have less to tell each other. */
static int run_of(const struct problem *p)
{
    const size_t each = SEVERAL * (group_size(p) / (size_t)lanes_of(p));
    const size_t groups = (size_t)p->in[0].shape.dim[0] * ceil_div((size_t)p->in[0].shape.dim[1], each);
    return groups >= UNIT_GROUPS * device_units(p->device) ? SEVERAL : 1;
}

static size_t room_of(const struct problem *p)
{
    return (size_t)p->in[0].shape.dim[1] + (size_t)p->in[SQUEEZE_W1].shape.dim[0];
}

static bool applicable(const struct problem *p, struct why *why)
{
    const size_t weights = shape_bytes(&p->in[SQUEEZE_W1].shape) + shape_bytes(&p->in[SQUEEZE_W2].shape);
    const size_t images = ceil_div((size_t)p->in[0].shape.dim[0], device_units(p->device));
    REQUIRE(why, room_of(p) <= MOST_ROOM, "the means and what is between the layers exceed local memory");
    PREFER(why, joins(p), "a group cannot tell here whether it is the last one");
    PREFER(why, !p->chained && images * weights <= SQUEEZE_MOST_UNIT_BYTES,
           "many weights are read faster by launches of their own, and steps of a chain cost little");
    return true;
}

static size_t workspace(const struct problem *p)
{
    return sizeof(float) * (size_t)p->in[0].shape.dim[0] * (size_t)p->in[0].shape.dim[1];
}

static struct squeeze_excite_args args_of(const struct problem *p)
{
    const struct squeeze_excite_attrs *at = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct squeeze_excite_args a = {
        .length = shape_count_from(&x->shape, 2),
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .hidden = p->in[SQUEEZE_W1].shape.dim[0],
        .k = y->shape.dim[1],
        .mid_p0 = at->mid_p0,
        .mid_p1 = at->mid_p1,
        .p0 = p->p0,
        .p1 = p->p1,
    };
    a.parts = (i32)ceil_div((size_t)a.c, (size_t)run_of(p) * (group_size(p) / (size_t)lanes_of(p)));
    return a;
}

static int emit_weights(struct emit *e, const struct problem *p, const struct operand *w)
{
    const struct squeeze_pack_args a = {.inputs = w->shape.dim[1], .outputs = w->shape.dim[0]};
    const size_t count = (size_t)a.inputs * round_up((size_t)a.outputs, 4), wg = any_group_size(p);
    char name[64];
    snprintf(name, sizeof name, "squeeze_excite in%d out%d", a.inputs, a.outputs);
    struct step *setup;
    const int view = emit_packed(e, w, name, sizeof(float) * count, "squeeze_excite_fused", "pack",
                                 ceil_div(count, wg), wg, &setup);
    if (setup) {
        step_read(setup, w->view);
        step_write(setup, view);
        step_args(setup, &a, sizeof a);
        step_cost(setup, 0.0, 2.0 * (double)sizeof(float) * (double)count);
    }
    return view;
}

/* The operands of both layers, for the step that computes them. */
static void layers_step(struct step *s, const struct problem *p, const int weights[2],
                        const struct squeeze_excite_args *a)
{
    const struct squeeze_excite_attrs *at = p->attrs;
    const struct operand *b1 = &p->in[SQUEEZE_B1];
    size_t room = LEAST_ROOM;
    while (room < room_of(p))
        room *= 2;
    step_define(s, "ROOM", (int)room);
    step_define_id(s, "MID_ACT", act_identifier((enum act)at->mid_act));
    step_define(s, "MID_BIAS", b1->present);
    step_read(s, weights[0]);
    step_read(s, b1->present ? b1->view : VIEW_NONE);
    step_read(s, weights[1]);
    step_epilogue(s, p, &p->in[SQUEEZE_B2]);
    step_write_map(s, &p->out[0]);
    step_args(s, a, sizeof *a);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct squeeze_excite_args a = args_of(p);
    const size_t images = (size_t)p->in[0].shape.dim[0], groups = images * (size_t)a.parts;
    const int weights[2] = {emit_weights(e, p, &p->in[SQUEEZE_W1]), emit_weights(e, p, &p->in[SQUEEZE_W2])};
    const int means = emit_workspace(e, workspace(p));
    const double macs = (double)images * a.hidden * ((double)a.c + a.k);
    const double bytes = 4.0 * a.hidden * ((double)a.c + a.k);
    struct step *s = emit_step(e, "squeeze_excite_fused", "main", groups, group_size(p));
    step_define(s, "JOIN", joins(p));
    step_define(s, "LANES", lanes_of(p));
    step_define(s, "RUN", run_of(p));
    step_read_map(s, &p->in[0]);
    step_write(s, means);
    step_update(s, joins(p) ? emit_counters(e, images) : VIEW_NONE);
    const double map = (double)operand_elem(&p->in[0]) * (double)shape_count(&p->in[0].shape);
    step_cost(s, joins(p) ? macs : 0.0, map + (joins(p) ? bytes : 0.0));
    if (joins(p)) {
        layers_step(s, p, weights, &a);
        return;
    }
    for (int i = 0; i < 6; i++) /* weights and biases, add, y */
        step_read(s, VIEW_NONE);
    step_args(s, &a, sizeof a);
    struct step *layers = emit_step(e, "squeeze_excite_fused", "excite", images, group_size(p));
    step_read(layers, means);
    layers_step(layers, p, weights, &a);
    step_cost(layers, macs, bytes);
}

const struct algo_def algo_squeeze_excite_fused = {
    .name = "fused",
    .doc = "means by many groups; the last one of an image computes both layers of it",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_SRC | FP16_DST,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
