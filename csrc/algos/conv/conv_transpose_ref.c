/* conv_transpose_ref: transposed convolution in its gathering form; see kernels/conv/conv_transpose_ref.cl. */
#include "algos/conv/conv_common.h"

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = conv_args_of(p);
    const struct clcnn_shape *x = &p->in[0].shape, *y = &p->out[0].shape;
    const double w = (double)shape_count(&p->in[1].shape), out = (double)shape_count(y);
    struct step *s =
        emit_step(e, "conv_transpose_ref", "main", ceil_div((size_t)shape_count(y), GROUP_SIZE), GROUP_SIZE);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, w * x->dim[0] * (double)shape_count_from(x, 2),
              4.0 * ((double)shape_count(x) + w + out * (p->add.present ? 2.0 : 1.0)));
}

const struct algo_def algo_conv_transpose_ref = {
    .name = "ref",
    .doc = "by the definition, gathered: one work-item an output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
