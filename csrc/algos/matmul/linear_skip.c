/* linear_skip: the weights that meet zeros are not read; for GPUs. See kernels/matmul/linear_skip.cl. */
#include <float.h>
#include <stdio.h>

#include "algos/cost/cost.h"
#include "algos/matmul/gemm_common.h"

enum {
    /* as the kernel has them: */
    WIDTH = 256, /* outputs of a block */
    QUAD = 4,    /* that their number is a multiple of */
    DEEP = 8,    /* inputs that a group packs */
    MOST = 1024, /* that a group lists */
};

static bool applicable(const struct problem *p, struct why *why)
{
    if (!linear_can_skip(p, why) || !linear_may_skip(p, LINEAR_SKIP_GPU_LEAST_ZEROS_SHARE, why))
        return false;
    PREFER(why, shape_count(&p->in[1].shape) >= LINEAR_SKIP_GPU_LEAST_WEIGHTS,
           "so few weights are read faster than zeros are found");
    return true;
}

static size_t blocks_of(const struct linear_skip_args *a)
{
    return ceil_div((size_t)a->gemm.n, WIDTH);
}

/* As many groups as keep the device's memory busy, of a list each that is worth its making. */
static struct linear_skip_args args_of(const struct problem *p)
{
    struct linear_skip_args a = {.gemm = linear_as_gemm(p).args, .skip = p->skip};
    const size_t groups = device_units(p->device) * LINEAR_SKIP_UNIT_GROUPS;
    const size_t share = ceil_div((size_t)a.gemm.k, ceil_div(groups, blocks_of(&a)));
    a.w_n = a.gemm.b_n;
    a.share = share < LINEAR_SKIP_LEAST_INPUTS ? LINEAR_SKIP_LEAST_INPUTS : share > MOST ? MOST : (i32)share;
    a.parts = (i32)ceil_div((size_t)a.gemm.k, (size_t)a.share);
    return a;
}

static size_t part_bytes(const struct linear_skip_args *a)
{
    return sizeof(float) * WIDTH * blocks_of(a) * (size_t)a->parts;
}

static size_t workspace(const struct problem *p)
{
    const struct linear_skip_args a = args_of(p);
    return part_bytes(&a);
}

static int emit_weights(struct emit *e, const struct problem *p, const struct linear_skip_args *a)
{
    const size_t bytes = sizeof(float) * (size_t)a->gemm.k * round_up((size_t)a->gemm.n, QUAD);
    char name[64];
    snprintf(name, sizeof name, "linear_skip n%d k%d", a->gemm.n, a->gemm.k);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, bytes, "linear_skip", "pack",
                                 blocks_of(a) * ceil_div((size_t)a->gemm.k, DEEP), any_group_size(p), &setup);
    if (setup) {
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, a, sizeof *a);
        step_cost(setup, 0.0, 2.0 * (double)bytes);
    }
    return view;
}

/* The operands of the step that ends the layer. */
static void finish_step(struct step *s, const struct problem *p, const struct linear_skip_args *a)
{
    step_epilogue(s, p, linear_as_gemm(p).c);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct problem clipped = *p; /* so that layers with and without relu share a kernel */
    clipped.act = act_as_clip(p->act, &clipped.p0, &clipped.p1);
    struct linear_skip_args a = args_of(&clipped);
    a.skip = p->skip && emit_constant_within(e, &p->in[1], FLT_MAX);
    const bool join = device_traits(p->device).tensor_cores;
    const int weights = emit_weights(e, p, &a), parts = emit_workspace(e, part_bytes(&a));
    struct step *s = emit_step(e, "linear_skip", "main", blocks_of(&a) * (size_t)a.parts, any_group_size(p));
    step_define(s, "JOIN", join);
    step_read(s, p->in[0].view);
    step_read(s, weights);
    step_write(s, parts);
    step_update(s, join ? emit_counters(e, blocks_of(&a)) : VIEW_NONE);
    gemm_cost(s, p, &a.gemm);
    if (join) {
        finish_step(s, &clipped, &a);
        return;
    }
    for (int i = 0; i < 3; i++) /* c, add, y */
        step_read(s, VIEW_NONE);
    step_args(s, &a, sizeof a);
    struct step *add = emit_step(e, "linear_skip", "add", blocks_of(&a), any_group_size(p));
    step_read(add, parts);
    finish_step(add, &clipped, &a);
    step_cost(add, 0.0, (double)part_bytes(&a));
}

const struct algo_def algo_linear_skip = {
    .name = "skip",
    .doc = "weights packed by inputs, shared among many groups: those that meet a zero are not read",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
