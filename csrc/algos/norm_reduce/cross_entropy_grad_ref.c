/* cross_entropy_grad_ref: the gradient of logits; see kernels/norm_reduce/cross_entropy_grad_ref.cl. */
#include "algos/norm_reduce/cross_entropy.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct cross_entropy_args a = cross_entropy_args_of(p);
    struct step *s = lanes_step(e, p, "cross_entropy_grad_ref", "main", a.rows, a.length);
    step_define(s, "MEAN", cross_entropy_is_mean(p));
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_read(s, p->in[2].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    s->alone = true; /* labels are no floats */
    rows_cost(s, p, 0);
}

const struct algo_def algo_cross_entropy_grad_ref = {
    .name = "ref",
    .doc = "a sample at a time: softmax less what the label asks for",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
