/* rows_norm_blocked: norms on channel blocks, for CPU devices; see kernels/norm_reduce/rows_norm_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/cost/cost.h"
#include "algos/norm_reduce/rows_norm.h"

#define LEAST_RUN 64   /* pixels of a work-item, at least */
#define LEAST_PART 512 /* pixels of a part, at least */
#define MOST_PARTS 16

/* Whether x lies on channel blocks is known when the planner comes to the node; forced, reorders see to it. */
static bool applicable(const struct problem *p, struct why *why)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, norm_by_groups(p) || (attrs->dim == 1 && attrs->dims == 1),
            "on channel blocks only the dimension of channels is normalised");
    if (p->asked)
        *p->asked = true;
    PREFER(why, p->in[0].block > 0, "x does not lie on channel blocks");
    return true;
}

/* Channels that are normalised together with their pixels. */
static int group_of(const struct problem *p)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    return p->op == &op_instance_norm ? 1 : p->in[0].shape.dim[1] / attrs->groups;
}

/* Blocks that no group goes beyond. */
static int span_of(const struct problem *p, int blocks)
{
    const int group = group_of(p), block = p->block;
    return block % group == 0 ? 1 : group % block == 0 ? group / block : blocks;
}

/* Parts depend on the map alone, as the order of sums does on them. */
static struct norm_blocked_args args_of(const struct problem *p)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct norm_blocked_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .pixels = (i32)shape_count_from(&x->shape, 2),
        .eps = attrs->eps,
        .p0 = p->p0,
        .p1 = p->p1,
        .weight = norm_operand(p, 1) != VIEW_NONE,
        .bias = norm_operand(p, 2) != VIEW_NONE,
    };
    const int blocks = blocked_count(p, a.c), parts = a.pixels / LEAST_PART;
    a.parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
    a.run = (i32)ceil_div((size_t)a.pixels, (size_t)a.parts);
    a.parts = (i32)ceil_div((size_t)a.pixels, (size_t)a.run);
    a.group = norm_by_groups(p) ? group_of(p) : 1;
    a.span = norm_by_groups(p) ? span_of(p, blocks) : blocks;
    a.sums_n = (int64_t)blocks * p->block * (1 + 2 * a.parts);
    return a;
}

static size_t workspace(const struct problem *p)
{
    const struct norm_blocked_args a = args_of(p);
    return norm_by_groups(p) ? (size_t)p->in[0].shape.dim[0] * (size_t)a.sums_n * sizeof(float) : 0;
}

static struct step *start(const struct problem *p, struct emit *e, const char *entry, size_t groups)
{
    struct step *s = emit_step(e, "rows_norm_blocked", entry, groups, 1);
    step_define(s, "KIND", norm_kind(p));
    step_define(s, "V", p->block);
    step_read(s, p->in[0].view);
    return s;
}

static void read_parameters(const struct problem *p, struct step *s)
{
    step_define_id(s, "EPI_ACT", act_identifier(p->act));
    step_read(s, norm_operand(p, 1));
    step_read(s, norm_operand(p, 2));
}

static void finish(const struct problem *p, struct step *s, const struct norm_blocked_args *a)
{
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 2 * (double)shape_count(&p->in[0].shape));
}

/* Spans by themselves read x from memory once, if they fit a cache; else the sums of all parts come first. */
static bool spans_keep_cores_busy(const struct problem *p, const struct norm_blocked_args *a)
{
    const size_t spans = ceil_div((size_t)blocked_count(p, a->c), (size_t)a->span);
    const size_t bytes = (size_t)a->span * (size_t)p->block * (size_t)a->pixels * sizeof(float);
    return (spans >= 2 * device_units(p->device) && bytes <= NORM_SPAN_BYTES) ||
           spans * bytes <= NORM_SMALL_BYTES;
}

static void emit_groups(const struct problem *p, struct emit *e)
{
    struct norm_blocked_args a = args_of(p);
    const int sums = emit_workspace(e, workspace(p));
    const size_t n = (size_t)p->in[0].shape.dim[0], blocks = (size_t)blocked_count(p, a.c);
    if (spans_keep_cores_busy(p, &a)) {
        struct step *s = start(p, e, "whole", n * ceil_div(blocks, (size_t)a.span));
        read_parameters(p, s);
        step_update(s, sums);
        finish(p, s, &a);
        return;
    }
    struct step *s = start(p, e, "sums", n * blocks * (size_t)a.parts);
    step_write(s, sums);
    step_args(s, &a, sizeof a);
    step_cost(s, (double)shape_count(&p->in[0].shape), (double)shape_bytes(&p->in[0].shape));
    s = start(p, e, "apply", n * blocks * (size_t)a.parts);
    read_parameters(p, s);
    step_read(s, sums);
    finish(p, s, &a);
}

static void emit_channels(const struct problem *p, struct emit *e)
{
    struct norm_blocked_args a = args_of(p);
    const size_t n = (size_t)p->in[0].shape.dim[0];
    a.run = blocked_run(p, n, (size_t)a.pixels, LEAST_RUN);
    a.parts = (i32)ceil_div((size_t)a.pixels, (size_t)a.run);
    struct step *s = start(p, e, "channels", n * (size_t)a.parts);
    read_parameters(p, s);
    finish(p, s, &a);
}

#define BLOCKED_ALGO(op, emitter)                              \
    const struct algo_def algo_##op##_blocked = {              \
        .name = "blocked",                                     \
        .doc = "vectors of channels, sums about a pivot each", \
        .devices = DEVICES_CPU,                                \
        .error = ERROR_STRICT,                                 \
        .deterministic = true,                                 \
        .src = LAYOUT_BLOCKED,                                 \
        .dst = LAYOUT_BLOCKED,                                 \
        .applicable = applicable,                              \
        .workspace = workspace,                                \
        .emit = emitter,                                       \
    }
BLOCKED_ALGO(instance_norm, emit_groups);
BLOCKED_ALGO(group_norm, emit_groups);
BLOCKED_ALGO(layer_norm, emit_channels);
BLOCKED_ALGO(rms_norm, emit_channels);
BLOCKED_ALGO(l2_norm, emit_channels);
