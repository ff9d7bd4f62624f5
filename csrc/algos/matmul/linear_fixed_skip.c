/* linear_fixed_skip: weights of 24 bits, of which those that meet zeros are not read; see kernels/matmul/linear_fixed_skip.cl. */
#include <float.h>
#include <stdio.h>

#include "algos/cost/cost.h"
#include "algos/matmul/gemm_common.h"

enum {
    /* as the kernel has them: */
    QUAD = 4,    /* outputs in three numbers */
    LANES = 16,  /* quads of outputs side by side */
    WIDE = 64,   /* outputs of both */
    CHUNK = 512, /* inputs with one format */
    HEAD = 68,   /* floats of the formats of WIDE outputs */
    AHEAD = 4,   /* entries of the list that are read past its end */
    LINE = 16,   /* floats of a cache line */
};

static bool applicable(const struct problem *p, struct why *why)
{
    const bool cpu = cpu_device(p->device) && p->device->float_width >= 8;
    if (!linear_can_skip(p, why))
        return false;
    PREFER(why, cpu, "weights of 24 bits are for CPU devices with vectors of 8 floats or more");
    if (!linear_may_skip(p, LINEAR_SKIP_LEAST_ZEROS_SHARE, why))
        return false;
    PREFER(why, sizeof(float) * (size_t)shape_count(&p->in[1].shape) > LINEAR_FIXED_NEAR_BYTES,
           "weights of 1 MiB at most stay in a core's cache");
    return true;
}

static size_t chunks_of(const struct linear_fixed_skip_args *a)
{
    return ceil_div((size_t)a->gemm.k, CHUNK);
}

static size_t blocks_of(const struct linear_fixed_skip_args *a)
{
    return ceil_div((size_t)a->gemm.n, WIDE * (size_t)a->quads);
}

/* Blocks as wide as they may be, as many for each core. */
static int quads_of(const struct problem *p, int outputs)
{
    const size_t all = ceil_div((size_t)outputs, WIDE), units = p->device->compute_units;
    const size_t quads = ceil_div(all, units * ceil_div(all, units * LINEAR_SKIP_MOST_QUADS));
    const size_t least = all < LINEAR_SKIP_LEAST_QUADS ? all : LINEAR_SKIP_LEAST_QUADS;
    return (int)(quads > least ? quads : least);
}

static struct linear_fixed_skip_args args_of(const struct problem *p)
{
    struct linear_fixed_skip_args a = {.gemm = linear_as_gemm(p).args, .skip = p->skip};
    a.w_n = a.gemm.b_n;
    a.quads = quads_of(p, a.gemm.n);
    a.head = (i32)round_up((size_t)a.quads * HEAD, LINE);
    a.pitch = (i64)chunks_of(&a) * a.head + (i64)a.gemm.k * a.quads * 3 * LANES;
    a.list = (i32)round_up(chunks_of(&a) + 1, LINE);
    return a;
}

/* The last block has only the rows and lanes that it needs, and vectors are read a little past them. */
static size_t packed_bytes(const struct linear_fixed_skip_args *a)
{
    const size_t before = blocks_of(a) - 1, outputs = (size_t)a->gemm.n - before * (size_t)a->quads * WIDE;
    const size_t last = chunks_of(a) * (size_t)a->head + (size_t)a->gemm.k * 3 * ceil_div(outputs, QUAD);
    return sizeof(float) * (before * (size_t)a->pitch + last + LANES);
}

static size_t list_count(const struct linear_fixed_skip_args *a)
{
    return (size_t)a->list + (size_t)a->gemm.k + AHEAD;
}

static size_t workspace(const struct problem *p)
{
    const struct linear_fixed_skip_args a = args_of(p);
    return sizeof(int32_t) * list_count(&a);
}

static void define_vectors(struct step *s, const struct problem *p)
{
    step_define(s, "V", p->device->float_width >= 16 ? 16 : p->device->float_width >= 8 ? 8 : 4);
}

static int emit_weights(struct emit *e, const struct problem *p, const struct linear_fixed_skip_args *a)
{
    char name[80];
    snprintf(name, sizeof name, "linear_fixed_skip n%d k%d q%d", a->gemm.n, a->gemm.k, a->quads);
    struct step *setup;
    const int view = emit_packed(e, &p->in[1], name, packed_bytes(a), "linear_fixed_skip", "pack",
                                 blocks_of(a) * chunks_of(a), 1, &setup);
    if (setup) {
        define_vectors(setup, p);
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, a, sizeof *a);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)packed_bytes(a));
    }
    return view;
}

static int emit_list(struct emit *e, const struct problem *p, const struct linear_fixed_skip_args *a)
{
    const int list = emit_workspace_of(e, CLCNN_INT32, (int64_t)list_count(a));
    struct step *s = emit_step(e, "linear_fixed_skip", "list", 1, 1);
    define_vectors(s, p);
    step_read(s, p->in[0].view);
    step_write(s, list);
    step_args(s, a, sizeof *a);
    step_cost(s, 0.0, 8.0 * a->gemm.k);
    return list;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct problem clipped = *p; /* so that layers with and without relu share a kernel */
    clipped.act = act_as_clip(p->act, &clipped.p0, &clipped.p1);
    const struct gemm_problem g = linear_as_gemm(&clipped);
    struct linear_fixed_skip_args a = args_of(&clipped);
    a.skip = p->skip && emit_constant_within(e, &p->in[1], FLT_MAX);
    const int weights = emit_weights(e, p, &a), list = emit_list(e, p, &a);
    struct step *s = emit_step(e, "linear_fixed_skip", "main", blocks_of(&a), 1);
    define_vectors(s, p);
    step_define_at_least(s, "QUADS", a.quads);
    step_read(s, p->in[0].view);
    step_read(s, list);
    step_read(s, weights);
    step_epilogue(s, &clipped, g.c);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    gemm_cost(s, p, &g.args);
    s->bytes -= 4.0 * (double)shape_count(&p->in[1].shape) - (double)packed_bytes(&a);
}

const struct algo_def algo_linear_fixed_skip = {
    .name = "fixed_skip",
    .doc = "weights of 24 bits, packed by inputs: those that meet a zero are not read",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .rounding = ROUNDING_24_BITS,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
