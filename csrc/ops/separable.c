/* separable.c: a depthwise convolution, an activation, and a 1x1 convolution in one; and the same behind a 1x1 convolution
 * that makes the channels more (Sandler et al. 2018, MobileNetV2). Made by rewrites only, so that an algorithm can keep
 * what lies between in fast memory. */
#include "ops/rules.h"

enum { X, DW_W, DW_B, PW_W, PW_B };
enum { EXPAND_W = 1, EXPAND_B, EXPANDED = 2 }; /* what an inverted residual has between X and DW_W */

/* 1x1 at every pixel of x; i: of the weights among the inputs, behind which the bias is. */
static enum clcnn_status infer_pointwise(struct infer *in, const struct clcnn_shape *x, int i,
                                         struct clcnn_shape *y, struct clcnn_err *err)
{
    struct conv_attrs pointwise = {
        .stride = {.n = 1, .v = {1}}, .dilation = {.n = 1, .v = {1}}, .padding = {.n = 1}, .groups = 1};
    const struct clcnn_shape *w = &in->in[i];
    enum clcnn_status st;

    TRY(rule_conv(in, &pointwise, x, w, y, err));
    TRY(rule_vector(in, i + 1, "bias", w->dim[0], err));
    if (shape_count_from(w, 2) != 1)
        return shape_fail(in, err, "weights %s of a pointwise convolution are not 1x1", SHAPE(w));
done:
    return st;
}

/* `before`: inputs between x and the depthwise weights. */
static enum clcnn_status infer_parts(struct infer *in, struct separable_attrs *a, const struct clcnn_shape *x,
                                     int before, struct clcnn_err *err)
{
    struct clcnn_shape middle;
    enum clcnn_status st;

    a->dw.groups = x->rank > 1 ? x->dim[1] : 1;
    TRY(rule_conv(in, &a->dw, x, &in->in[DW_W + before], &middle, err));
    TRY(rule_vector(in, DW_B + before, "depthwise bias", middle.dim[1], err));
    TRY(infer_pointwise(in, &middle, PW_W + before, &in->out[0], err));
    a->dw_bias = input_present(in, DW_B + before);
    a->pw_bias = input_present(in, PW_B + before);
    in->n_out = 1;
done:
    return st;
}

static double macs_of_parts(const struct infer *in, int before)
{
    struct clcnn_shape middle = in->out[0];

    middle.dim[1] = in->in[DW_W + before].dim[0];
    return conv_macs_of(&in->in[DW_W + before], &middle) + conv_macs_of(&in->in[PW_W + before], &in->out[0]);
}

static enum clcnn_status infer_separable(struct infer *in, struct clcnn_err *err)
{
    return infer_parts(in, in->attrs, &in->in[X], 0, err);
}

static double macs_separable(const struct infer *in)
{
    return macs_of_parts(in, 0);
}

static enum clcnn_status infer_inverted_residual(struct infer *in, struct clcnn_err *err)
{
    struct inverted_residual_attrs *a = in->attrs;
    struct clcnn_shape expanded;
    enum clcnn_status st;

    TRY(infer_pointwise(in, &in->in[X], EXPAND_W, &expanded, err));
    TRY(infer_parts(in, &a->tail, &expanded, EXPANDED, err));
done:
    return st;
}

static double macs_inverted_residual(const struct infer *in)
{
    struct clcnn_shape expanded = in->in[X];

    expanded.dim[1] = in->in[EXPAND_W].dim[0];
    return conv_macs_of(&in->in[EXPAND_W], &expanded) + macs_of_parts(in, EXPANDED);
}

const struct op_def op_separable = {
    .name = "separable",
    .doc = "depthwise convolution of x[N,C,*spatial] with dw_w[C,1,*kernel], an activation, then a 1x1 "
           "convolution with "
           "pw_w[K,C,1,..]; made by rewrites",
    .inputs = "x dw_w dw_b? pw_w pw_b?",
    .attrs_size = sizeof(struct separable_attrs),
    .infer = infer_separable,
    .macs = macs_separable,
    .fuses = true,
    .by_item = true,
    .internal = true,
};

const struct op_def op_inverted_residual = {
    .name = "inverted_residual",
    .doc = "1x1 convolution of x[N,C,*spatial] with expand_w[M,C,1,..], an activation, then a separable one: "
           "depthwise with "
           "dw_w[M,1,*kernel], an activation, and 1x1 with pw_w[K,M,1,..]; made by rewrites",
    .inputs = "x expand_w expand_b? dw_w dw_b? pw_w pw_b?",
    .attrs_size = sizeof(struct inverted_residual_attrs),
    .infer = infer_inverted_residual,
    .macs = macs_inverted_residual,
    .fuses = true,
    .by_item = true,
    .internal = true,
};
