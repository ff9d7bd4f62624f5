/* linear_gemv: dot products that stream the weights; see kernels/linear_gemv.cl. */
#include "algos/gemm_common.h"

#define OUTPUTS 4     /* of a work-item on CPU devices, of a group elsewhere */
#define ROW_OUTPUTS 8 /* of a work-item on CPU devices when there is one row: more streams from memory */
#define AHEAD 256     /* elements of each row: hardware stops prefetching at the end of a page */

static bool applicable(const struct problem *p, struct why *why)
{
    const struct gemm_problem g = linear_as_gemm(p);
    PREFER(why, p->device->type == CLCNN_DEVICE_CPU || gemm_items(&g.args) * (size_t)g.args.m <= 32,
           "more than 32 rows: tiles reuse the weights better");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct problem clipped = *p; /* so that layers with and without relu share a kernel */
    clipped.act = act_as_clip(p->act, &clipped.p0, &clipped.p1);
    const struct gemm_problem g = linear_as_gemm(&clipped);
    const bool cpu = p->device->type == CLCNN_DEVICE_CPU;
    const int rows = g.args.m > 1 ? 4 : 1, wg = cpu ? 1 : GROUP_SIZE;
    const int outputs = cpu && rows == 1 ? ROW_OUTPUTS : OUTPUTS;
    const size_t groups = ceil_div((size_t)g.args.n, (size_t)outputs) * gemm_items(&g.args) *
                          ceil_div((size_t)g.args.m, (size_t)rows);
    struct step *s = emit_step(e, "linear_gemv", "main", groups, (size_t)wg);
    step_define(s, "LK", wg);
    step_define(s, "V", !cpu ? 4 : p->device->float_width >= 16 ? 16 : 8);
    step_define(s, "TO", outputs);
    step_define(s, "TB", rows);
    step_define(s, "AHEAD", cpu ? AHEAD : 0);
    step_read(s, p->in[0].slot);
    step_read(s, p->in[1].slot);
    step_epilogue(s, &clipped, g.c);
    step_write(s, p->out[0].slot);
    step_args(s, &g.args, sizeof g.args);
    gemm_cost(s, p, &g.args);
}

const struct algo_def algo_linear_gemv = {
    .name = "gemv",
    .doc = "dot products that stream the weights once per four rows",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
