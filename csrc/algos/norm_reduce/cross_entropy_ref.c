/* cross_entropy_ref: losses of samples, and their mean; see kernels/norm_reduce/cross_entropy_ref.cl. */
#include "algos/norm_reduce/cross_entropy.h"

struct cross_entropy_args cross_entropy_args_of(const struct problem *p)
{
    const struct operand *x = &p->in[0];

    return (struct cross_entropy_args){
        .rows = x->shape.dim[0],
        .length = x->shape.dim[1],
        .x_n = x->batch_stride,
        .dx_n = p->out[0].batch_stride,
        .smoothing = ((const struct loss_attrs *)p->attrs)->label_smoothing,
    };
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct cross_entropy_args a = cross_entropy_args_of(p);
    const bool mean = cross_entropy_is_mean(p);
    const int losses = mean ? emit_workspace(e, (size_t)a.rows * sizeof(float)) : p->out[0].view;
    struct step *s = lanes_step(e, p, "cross_entropy_ref", "losses", a.rows, a.length);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, losses);
    step_args(s, &a, sizeof a);
    s->alone = true; /* labels are no floats */
    rows_cost(s, p, 0);
    if (!mean)
        return;
    s = lanes_step(e, p, "cross_entropy_ref", "mean", 1, a.rows);
    step_read(s, losses);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0, 4.0 * (double)a.rows);
}

static size_t workspace(const struct problem *p)
{
    return cross_entropy_is_mean(p) ? (size_t)p->in[0].shape.dim[0] * sizeof(float) : 0;
}

const struct algo_def algo_cross_entropy_ref = {
    .name = "ref",
    .doc = "a sample at a time, largest logit taken off first",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
