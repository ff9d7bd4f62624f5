/* separable.c: a depthwise convolution, an activation, and a 1x1 convolution in one. Made by a rewrite only,
 * so that an algorithm can keep the middle in fast memory. */
#include "ops/rules.h"

enum { X, DW_W, DW_B, PW_W, PW_B };

static enum clcnn_status infer_separable(struct infer *in, struct clcnn_err *err)
{
    struct separable_attrs *a = in->attrs;
    struct conv_attrs pointwise = {
        .stride = {.n = 1, .v = {1}}, .dilation = {.n = 1, .v = {1}}, .padding = {.n = 1}, .groups = 1};
    const struct clcnn_shape *pw = &in->in[PW_W];
    struct clcnn_shape middle;
    enum clcnn_status st;

    a->dw.groups = in->in[X].rank > 1 ? in->in[X].dim[1] : 1;
    TRY(rule_conv(in, &a->dw, &in->in[X], &in->in[DW_W], &middle, err));
    TRY(rule_vector(in, DW_B, "depthwise bias", middle.dim[1], err));
    TRY(rule_conv(in, &pointwise, &middle, pw, &in->out[0], err));
    TRY(rule_vector(in, PW_B, "bias", pw->dim[0], err));
    if (shape_count_from(pw, 2) != 1)
        return shape_fail(in, err, "weights %s of the second convolution are not 1x1", SHAPE(pw));
    a->dw_bias = input_present(in, DW_B);
    a->pw_bias = input_present(in, PW_B);
    in->n_out = 1;
done:
    return st;
}

static double macs_separable(const struct infer *in)
{
    struct clcnn_shape middle = in->out[0];

    middle.dim[1] = in->in[DW_W].dim[0];
    return conv_macs_of(&in->in[DW_W], &middle) + conv_macs_of(&in->in[PW_W], &in->out[0]);
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
