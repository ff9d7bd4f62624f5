/* linear_gemv: dot products that stream the weights, as they are (gemv) or as halves (gemv_half); see kernels/matmul/linear_gemv.cl. */
#include <math.h>
#include <stdio.h>

#include "algos/cost/cost.h"
#include "algos/matmul/gemm_common.h"

#define OUTPUTS 4     /* of a work-item on CPU devices, of a group elsewhere */
#define ROW_OUTPUTS 8 /* of a work-item on CPU devices when there is one row: more streams from memory */
#define LARGEST_VECTOR 16
#define AHEAD 256 /* elements of each row: hardware stops prefetching at the end of a page */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct gemm_problem g = linear_as_gemm(p);
    PREFER(why, !p->rows_elsewhere, GEMM_BUILT_LATER);
    PREFER(why, cpu_device(p->device) || gemm_items(&g.args) * (size_t)g.args.m <= 32,
           "more than 32 rows: tiles reuse the weights better");
    return true;
}

/* Of weights that come from memory, once for four rows. */
static double effort_of(const struct problem *p)
{
    const struct gemm_problem g = linear_as_gemm(p);
    const double rows = (double)(gemm_items(&g.args) * (size_t)g.args.m);
    return cpu_device(p->device) ? gemm_stream_effort(p, ceil(rows / 4.0) * sizeof(float) / rows) : 0.0;
}

static int vector_of(const struct problem *p)
{
    return !cpu_device(p->device) ? 4 : p->device->float_width >= 16 ? 16 : 8;
}

/* Weights `w` with `row` elements between rows. */
static void emit_products(const struct problem *p, struct emit *e, int w, int64_t row, bool halves)
{
    struct problem clipped = *p; /* so that layers with and without relu share a kernel */
    clipped.act = act_as_clip(p->act, &clipped.p0, &clipped.p1);
    struct gemm_problem g = linear_as_gemm(&clipped);
    g.args.b_n = row;
    const bool cpu = cpu_device(p->device);
    const int rows = g.args.m > 1 ? 4 : 1, wg = cpu ? 1 : GROUP_SIZE;
    const int outputs = cpu && rows == 1 ? ROW_OUTPUTS : OUTPUTS;
    const size_t groups = ceil_div((size_t)g.args.n, (size_t)outputs) * gemm_items(&g.args) *
                          ceil_div((size_t)g.args.m, (size_t)rows);
    struct step *s = emit_step(e, "linear_gemv", "main", groups, (size_t)wg);
    step_define(s, "LK", wg);
    step_define(s, "V", vector_of(p));
    step_define(s, "TO", outputs);
    step_define(s, "TB", rows);
    step_define(s, "AHEAD", cpu ? AHEAD : 0);
    if (halves)
        step_define(s, "HALVES", 1);
    step_read(s, p->in[0].view);
    step_read(s, w);
    step_epilogue(s, &clipped, g.c);
    step_write(s, p->out[0].view);
    step_args(s, &g.args, sizeof g.args);
    gemm_cost(s, p, &g.args);
}

static void emit(const struct problem *p, struct emit *e)
{
    emit_products(p, e, p->in[1].view, linear_as_gemm(p).args.b_n, false);
}

static struct linear_pack_args halves_of(const struct problem *p)
{
    const struct clcnn_shape *w = &p->in[1].shape;
    return (struct linear_pack_args){
        .w_n = linear_as_gemm(p).args.b_n,
        .n = w->dim[0],
        .k = w->dim[1],
        .pitch = (i64)round_up((size_t)w->dim[1], LARGEST_VECTOR),
    };
}

static size_t half_count(const struct problem *p)
{
    const struct linear_pack_args a = halves_of(p);
    return (size_t)a.n * (size_t)a.pitch;
}

static size_t half_bytes(const struct problem *p)
{
    return p->in[1].constant ? 0 : sizeof(uint16_t) * half_count(p);
}

static void half_emit(const struct problem *p, struct emit *e)
{
    const struct linear_pack_args args = halves_of(p);
    const size_t count = half_count(p);
    char name[64];
    snprintf(name, sizeof name, "linear_gemv_pack n%d k%d", args.n, args.k);
    struct step *setup;
    const int packed = emit_packed(e, &p->in[1], name, sizeof(uint16_t) * count, "linear_gemv_pack", "main",
                                   ceil_div(count, GROUP_SIZE), GROUP_SIZE, &setup);
    if (setup) {
        step_read(setup, p->in[1].view);
        step_write(setup, packed);
        step_args(setup, &args, sizeof args);
        step_cost(setup, 0.0, 6.0 * (double)count);
    }
    emit_products(p, e, packed, args.pitch, true);
}

const struct algo_def algo_linear_gemv = {
    .name = "gemv",
    .doc = "dot products that stream the weights once per four rows",
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort_of = effort_of,
    .applicable = applicable,
    .emit = emit,
};

const struct algo_def algo_linear_gemv_half = {
    .name = "gemv_half",
    .doc = "dot products that stream the weights, stored as halves, once per four rows",
    .error = ERROR_MEDIUM,
    .deterministic = true,
    .applicable = applicable,
    .workspace = half_bytes,
    .emit = half_emit,
};
