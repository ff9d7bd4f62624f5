/* depthwise_nhwc.c: a depthwise convolution of a map whose channels come last, as tokens lie: [N, H, W, C]. Rewrites make it of
 * convolutions between two transposes. */
#include "ops/rules.h"

enum { X, W, B };

static enum clcnn_status infer_depthwise_nhwc(struct infer *in, struct clcnn_err *err)
{
    struct conv_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[X], *w = &in->in[W];
    enum clcnn_status st;

    if (x->rank != 4)
        return shape_fail(in, err, "input %s must be [N, height, width, C]", SHAPE(x));
    if (w->rank != 4 || w->dim[0] != x->dim[3] || w->dim[1] != 1)
        return shape_fail(in, err,
                          "weights %s must be [%d, 1, height, width], one filter for each channel of %s",
                          SHAPE(w), (int)x->dim[3], SHAPE(x));
    TRY(rule_spread(in, "stride", &a->stride, 2, 1, err));
    TRY(rule_spread(in, "dilation", &a->dilation, 2, 1, err));
    TRY(rule_padding(in, &a->padding, 2, err));
    TRY(rule_vector(in, B, "bias", x->dim[3], err));
    a->output_padding = (struct ints){.n = 2};
    a->groups = x->dim[3];
    in->out[0] = (struct clcnn_shape){.rank = 1, .dim = {x->dim[0]}};
    TRY(rule_windows(in, a, x, 1, w, &in->out[0], err));
    TRY(rule_push(in, &in->out[0], x->dim[3], err));
    in->n_out = 1;
done:
    return st;
}

static double macs_depthwise_nhwc(const struct infer *in)
{
    return conv_macs_of(&in->in[W], &in->out[0]);
}

static const struct clcnn_attr_info table[] = {
    ATTR(INTS, conv_attrs, stride, 1, "step of the window, for all or for each spatial dimension"),
    ATTR(INTS, conv_attrs, padding, 0,
         "zeros around the input: one number, one a spatial dimension, or all begins and then all ends"),
    ATTR(INTS, conv_attrs, dilation, 1, "distance between the taps of the kernel"),
};

const struct op_def op_depthwise_nhwc = {
    .name = "depthwise_nhwc",
    .doc =
        "depthwise convolution of x[N,height,width,C], whose channels come last, with w[C,1,*kernel], plus "
        "b[C]; made by rewrites",
    .inputs = "x w b?",
    ATTRS(table, conv_attrs),
    .infer = infer_depthwise_nhwc,
    .macs = macs_depthwise_nhwc,
    .fuses = true,
    .by_item = true,
};
