/* softmax_ref: softmax and log_softmax along any dimension; see kernels/norm_reduce/softmax_ref.cl. */
#include "algos/common/norm_rows.h"
#include "algos/common/rows.h"

static void emit_softmax(const struct problem *p, struct emit *e, bool logarithm)
{
    struct softmax_args a = softmax_rows_of(p);
    struct step *s;
    if (ROWS_ARE_CONTIGUOUS(&a))
        s = lanes_step(e, p, "softmax_ref", "rows", a.rows, a.length);
    else
        s = rows_step(e, p, "softmax_ref", "columns", a.rows, a.inner, &a.pieces);
    step_define(s, "LOG", logarithm);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

static void emit_plain(const struct problem *p, struct emit *e)
{
    emit_softmax(p, e, false);
}

static void emit_log(const struct problem *p, struct emit *e)
{
    emit_softmax(p, e, true);
}

const struct algo_def algo_softmax_ref = {
    .name = "ref",
    .doc = "largest value taken off first",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_plain,
};

const struct algo_def algo_log_softmax_ref = {
    .name = "ref",
    .doc = "largest value taken off first",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_log,
};
