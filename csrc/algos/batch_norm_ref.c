/* batch_norm_ref: normalisation by running statistics; see kernels/batch_norm_ref.cl. */
#include "algos/rows.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct norm_attrs *attrs = p->attrs;
    struct channel_args a = channel_args_of(p, 1);
    a.x_n = p->in[0].batch_stride;
    a.eps = attrs->eps;
    struct step *s = rows_step(e, p, "batch_norm_ref", "main", a.rows, a.inner, &a.pieces);
    for (int i = 0; i < 5; i++) /* x, weight, bias, mean, variance */
        step_read(s, p->in[i].slot);
    step_define(s, "EPI_ADD", p->add.present);
    step_define_id(s, "EPI_ACT", act_identifier(p->act));
    step_read(s, p->add.present ? p->add.slot : SLOT_NONE);
    step_write(s, p->out[0].slot);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape));
}

const struct algo_def algo_batch_norm_ref = {
    .name = "ref",
    .doc = "one scale and shift a channel",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
