/* depthwise_nhwc_ref: by the definition, for every problem; see kernels/conv/depthwise_nhwc_ref.cl. */
#include "algos/conv/depthwise_nhwc.h"

struct conv_args depthwise_nhwc_args(const struct problem *p)
{
    struct conv_args a = conv_args_at(p, 3, 1);
    a.groups = a.c;
    return a;
}

void depthwise_nhwc_cost(struct step *s, const struct problem *p, const struct conv_args *a)
{
    const double x = (double)shape_count(&p->in[0].shape), y = (double)shape_count(&p->out[0].shape),
                 filters = (double)shape_count(&p->in[1].shape);
    step_cost(s, y * conv_taps(a), 4.0 * (x + filters + (p->add.present ? 2.0 : 1.0) * y));
}

void depthwise_nhwc_finish(struct step *s, const struct problem *p, int w, const struct conv_args *a)
{
    step_read(s, p->in[0].view);
    step_read(s, w);
    step_epilogue(s, p, &p->in[2]);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    depthwise_nhwc_cost(s, p, a);
}

static bool applicable(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct conv_args a = depthwise_nhwc_args(p);
    const size_t results = (size_t)shape_count(&p->out[0].shape);
    struct step *s = emit_step(e, "depthwise_nhwc_ref", "main", ceil_div(results, GROUP_SIZE), GROUP_SIZE);
    depthwise_nhwc_finish(s, p, p->in[1].view, &a);
}

const struct algo_def algo_depthwise_nhwc_ref = {
    .name = "ref",
    .doc = "by the definition, one work-item an output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
