/* reduce_ref: sum, mean, max and min over any axes; see kernels/norm_reduce/reduce_ref.cl. */
#include "algos/common/reduction.h"

/* Few outputs leave a device idle: cuts the last reduced dimension into parts, so that there is a row for
 * every work-item that it holds, and enough in each to be worth it. */
static struct reduction cut_reduction(const struct problem *p)
{
    struct reduction r = reduction_of(p);
    const int64_t units = (int64_t)device_units(p->device);
    const bool cpu = cpu_device(p->device);
    const int64_t wanted = cpu         ? 4 * units
                           : r.columns ? 1024 * units
                                       : 8 * units; /* rows, or columns on a GPU */
    const int64_t have = r.columns && cpu ? (r.outputs + 63) / 64 : r.outputs;
    const int64_t least = r.columns ? 64 : 4096, parts = wanted / have;
    reduction_cut(p, &r, parts < r.length / least ? parts : r.length / least);
    return r;
}

static void emit_pass(const struct problem *p, struct emit *e, const struct reduction *r, const char *red,
                      int from, int to)
{
    struct reduce_args a = r->args;
    struct step *s;
    a.rows = r->outputs * a.parts;
    if (r->columns) {
        const int64_t inner = a.size[a.kept - 1];
        a.rows /= inner;
        s = rows_step(e, p, "reduce_ref", "columns", a.rows, inner, &a.pieces);
    } else {
        s = lanes_step(e, p, "reduce_ref", "rows", a.rows, a.chunk);
    }
    step_define_id(s, "RED", red);
    step_read(s, from);
    step_write(s, to);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[0].shape));
}

static size_t workspace(const struct problem *p)
{
    if (p->in[0].shape.dtype != CLCNN_FLOAT32)
        return 0;
    const struct reduction r = cut_reduction(p);
    return reduction_workspace(&r);
}

/* One algorithm an operator: they differ in what combines two numbers. */
#define REDUCE_ALGO(op, red, typed, mean, class)                           \
    static void emit_##op(const struct problem *p, struct emit *e)         \
    {                                                                      \
        if (p->in[0].shape.dtype != CLCNN_FLOAT32)                         \
            emit_reduce_typed(p, e, typed);                                \
        else                                                               \
            reduction_emit(p, e, cut_reduction(p), red, mean, emit_pass);  \
    }                                                                      \
    const struct algo_def algo_##op##_ref = {                              \
        .name = "ref",                                                     \
        .doc = "partial results by blocks, in parts when outputs are few", \
        .error = class,                                                    \
        .deterministic = true,                                             \
        .applicable = rows_always,                                         \
        .workspace = workspace,                                            \
        .emit = emit_##op,                                                 \
    }
REDUCE_ALGO(reduce_sum, "red_sum", "int_add", false, ERROR_STRICT);
REDUCE_ALGO(reduce_mean, "red_sum", "int_add", true, ERROR_STRICT);
REDUCE_ALGO(reduce_max, "red_max", "int_maximum", false, ERROR_EXACT);
REDUCE_ALGO(reduce_min, "red_min", "int_minimum", false, ERROR_EXACT);
