/* conv_filter_grad_ref: the gradient of filters by its definition; see kernels/conv/conv_filter_grad_ref.cl. */
#include "algos/common/rows.h"
#include "algos/conv/conv_filter_grad.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_filter_grad_args(p);
    const size_t weights = (size_t)shape_count(&p->out[0].shape);
    struct step *s = emit_step(e, "conv_filter_grad_ref", "main", ceil_div(weights, GROUP_SIZE), GROUP_SIZE);
    step_define(s, "VECTOR", cpu_device(p->device));
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, conv_macs(&a));
}

const struct algo_def algo_conv_filter_grad_ref = {
    .name = "ref",
    .doc = "by the definition, one work-item a weight",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
