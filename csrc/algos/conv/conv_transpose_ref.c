/* conv_transpose_ref: transposed convolution in its gathering form; see kernels/conv/conv_transpose_ref.cl. */
#include "algos/conv/conv_transpose_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const size_t outputs = (size_t)shape_count(&p->out[0].shape);
    struct step *s = emit_step(e, "conv_transpose_ref", "main", ceil_div(outputs, GROUP_SIZE), GROUP_SIZE);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    conv_transpose_cost(s, p);
}

const struct algo_def algo_conv_transpose_ref = {
    .name = "ref",
    .doc = "by the definition, gathered: one work-item an output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
