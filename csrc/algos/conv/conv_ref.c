/* conv_ref: convolution by its definition, for every problem; see kernels/conv/conv_ref.cl. */
#include "algos/cost/cost.h"
#include "algos/conv/conv_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct conv_args a = conv_args_of(p);
    struct step *s =
        emit_step(e, "conv_ref", "main", ceil_div(shape_count(&p->out[0].shape), GROUP_SIZE), GROUP_SIZE);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    conv_cost(s, p);
}

const struct algo_def algo_conv_ref = {
    .name = "ref",
    .doc = "by the definition, one work-item an output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .effort = REF_EFFORT_PERCENT,
    .applicable = applicable,
    .emit = emit,
};
