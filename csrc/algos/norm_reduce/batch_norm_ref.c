/* batch_norm_ref: normalisation by running statistics; see kernels/norm_reduce/batch_norm_ref.cl. */
#include "algos/common/rows.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct norm_attrs *attrs = p->attrs;
    struct channel_args a = channel_args_of(p, 1);
    a.x_n = p->in[0].batch_stride;
    a.eps = attrs->eps;
    struct step *s = rows_step(e, p, "batch_norm_ref", "main", a.rows, a.inner, &a.pieces);
    step_read_map(s, &p->in[0]);
    for (int i = 1; i < 5; i++) /* weight, bias, mean, variance */
        step_read(s, p->in[i].view);
    norm_epilogue(s, p);
    step_write_map(s, &p->out[0]);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape));
}

const struct algo_def algo_batch_norm_ref = {
    .name = "ref",
    .doc = "one scale and shift a channel",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_CONV,
    .applicable = rows_always,
    .emit = emit,
};
