/* adaptive_pool_ref: max and average over torch's adaptive bins; see kernels/pool/adaptive_pool_ref.cl. */
#include "algos/common/rows.h"
#include "pool/pool_args.h"

static void emit_pool(const struct problem *p, struct emit *e, bool average)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2;
    struct adaptive_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
    };
    for (int i = 0; i < dims; i++) {
        a.in[3 - dims + i] = x->shape.dim[2 + i];
        a.out[3 - dims + i] = y->shape.dim[2 + i];
    }
    a.rows = (int64_t)x->shape.dim[0] * a.c * a.out[0] * a.out[1];
    struct step *s = rows_step(e, p, "adaptive_pool_ref", "main", a.rows, a.out[2], &a.pieces);
    step_define(s, "AVG", average);
    step_read(s, x->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&x->shape));
}

static void emit_max(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, false);
}

static void emit_avg(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, true);
}

const struct algo_def algo_adaptive_avg_pool_ref = {
    .name = "ref",
    .doc = "one work-item a bin",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_avg,
};

const struct algo_def algo_adaptive_max_pool_ref = {
    .name = "ref",
    .doc = "one work-item a bin",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_max,
};
