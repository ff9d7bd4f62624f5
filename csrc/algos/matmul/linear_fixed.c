/* linear_fixed: dot products with weights of 24 bits; see kernels/matmul/linear_fixed.cl. */
#include "algos/matmul/gemm_common.h"
#include "algos/cost/cost.h"

#include <stdio.h>

enum {
    /* as the kernel has them: */
    BLOCK_ROWS = 8, /* of w */
    CHUNK = 512,    /* elements of a row with one format */
    STEP = 16,      /* elements that lie together, */
    FLOATS = 96,    /* which take so much in a block, */
    LINE = 16,      /* as the formats of a chunk do */
};

static bool applicable(const struct problem *p, struct why *why)
{
    const struct gemm_problem g = linear_as_gemm(p);
    const bool cpu = cpu_device(p->device) && p->device->float_width >= 8;
    PREFER(why, p->in[1].constant, "computed weights would be packed in every run");
    PREFER(why, !p->quick, GEMM_BUILT_LATER);
    PREFER(why, cpu, "weights of 24 bits are for CPU devices with vectors of 8 floats or more");
    const size_t rows = gemm_items(&g.args) * (size_t)g.args.m;
    PREFER(why, rows <= LINEAR_FIXED_MOST_ROWS, "more than 2 rows: memory is no longer the limit");
    PREFER(why, (size_t)g.args.k >= LINEAR_FIXED_LEAST_ELEMENTS * rows,
           "short rows: adding up the sums of each result takes longer than reading the weights");
    PREFER(why, sizeof(float) * (size_t)shape_count(&p->in[1].shape) > LINEAR_FIXED_NEAR_BYTES,
           "weights of 1 MiB at most stay in a core's cache");
    return true;
}

static size_t blocks_of(const struct gemm_args *a)
{
    return ceil_div((size_t)a->n, BLOCK_ROWS);
}

/* Floats of a block. */
static size_t pitch_of(const struct gemm_args *a)
{
    return ceil_div((size_t)a->k, CHUNK) * LINE + ceil_div((size_t)a->k, STEP) * FLOATS;
}

static size_t packed_bytes(const struct gemm_args *a)
{
    return sizeof(float) * pitch_of(a) * blocks_of(a);
}

static size_t workspace(const struct problem *p)
{
    const struct gemm_problem g = linear_as_gemm(p);
    return p->in[1].constant ? 0 : packed_bytes(&g.args);
}

static int vector_of(const struct problem *p)
{
    const uint32_t width = p->device->float_width;
    return width >= 16 ? 16 : width >= 8 ? 8 : 4;
}

static int emit_weights(struct emit *e, const struct problem *p, const struct gemm_args *a)
{
    char name[64];
    snprintf(name, sizeof name, "linear_fixed n%d k%d", a->n, a->k);
    struct step *setup;
    const int view =
        emit_packed(e, &p->in[1], name, packed_bytes(a), "linear_fixed", "pack", blocks_of(a), 1, &setup);
    if (setup) {
        const struct linear_pack_args args = {.w_n = a->b_n, .pitch = (i64)pitch_of(a), .n = a->n, .k = a->k};
        step_define(setup, "V", vector_of(p));
        step_read(setup, p->in[1].view);
        step_write(setup, view);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 4.0 * (double)shape_count(&p->in[1].shape) + (double)packed_bytes(a));
    }
    return view;
}

/* Weights that are rather read once a row than another kernel is built. */
#define MOST_AGAIN ((size_t)16 << 20)

static bool rows_known(const struct problem *p, int rows)
{
    return kernel_known(p, "linear_fixed", "main", &(struct kernel_define){"TB", rows}, 1);
}

/* Of a work-item. */
static int rows_of(const struct problem *p, const struct gemm_args *a)
{
    const int best = a->m > 1 ? 2 : 1, other = 3 - best;
    const bool serves = other == 2 || packed_bytes(a) <= MOST_AGAIN;
    return serves && !rows_known(p, best) && rows_known(p, other) ? other : best;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct problem clipped = *p; /* so that layers with and without relu share a kernel */
    clipped.act = act_as_clip(p->act, &clipped.p0, &clipped.p1);
    struct gemm_problem g = linear_as_gemm(&clipped);
    const int weights = emit_weights(e, p, &g.args);
    const int rows = rows_of(p, &g.args);
    const size_t groups = blocks_of(&g.args) * gemm_items(&g.args) * ceil_div((size_t)g.args.m, (size_t)rows);
    struct step *s = emit_step(e, "linear_fixed", "main", groups, 1);
    step_define(s, "V", vector_of(p));
    step_define(s, "TB", rows);
    step_read(s, p->in[0].view);
    step_read(s, weights);
    step_epilogue(s, &clipped, g.c);
    step_write(s, p->out[0].view);
    g.args.b_n = (i64)pitch_of(&g.args);
    step_args(s, &g.args, sizeof g.args);
    gemm_cost(s, p, &g.args);
    s->bytes -= 4.0 * (double)shape_count(&p->in[1].shape) - (double)packed_bytes(&g.args);
}

const struct algo_def algo_linear_fixed = {
    .name = "fixed",
    .doc =
        "dot products with weights of 24 bits, as many of them for the exponent as 512 weights need, for few "
        "rows",
    .devices = DEVICES_CPU,
    .error = ERROR_HIGHEST,
    .rounding = ROUNDING_24_BITS,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
