/* loss.c: losses of classifiers: softmax and cross-entropy in one, which neither overflows nor loses small probabilities. */
#include "ops/rules.h"

/* The shape of the losses: one, or one a sample. */
static enum clcnn_status loss_shape(const struct infer *in, struct clcnn_shape *out, struct clcnn_err *err)
{
    const struct loss_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *labels = &in->in[1];

    if (x->rank != 2)
        return shape_fail(in, err, "input %s must be [samples, classes]", SHAPE(x));
    if (labels->rank != 1 || labels->dim[0] != x->dim[0]) {
        return shape_fail(in, err, "labels have shape %s, expected [%d], one a sample of input %s",
                          SHAPE(labels), (int)x->dim[0], SHAPE(x));
    }
    if (!(a->label_smoothing >= 0.0f && a->label_smoothing <= 1.0f))
        return value_fail(in, err, "label_smoothing=%g must be from 0 to 1", (double)a->label_smoothing);
    *out = (struct clcnn_shape){.rank = a->reduction != 0, .dim = {x->dim[0]}};
    return CLCNN_OK;
}

static enum clcnn_status infer_cross_entropy(struct infer *in, struct clcnn_err *err)
{
    in->n_out = 1;
    return loss_shape(in, &in->out[0], err);
}

static enum clcnn_status infer_cross_entropy_grad(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *dy = &in->in[2];
    struct clcnn_shape y;
    enum clcnn_status st = loss_shape(in, &y, err);

    if (st == CLCNN_OK && (dy->rank != y.rank || !shape_equal(dy, &y)))
        return shape_fail(in, err, "dy has shape %s, but the loss has %s", SHAPE(dy), SHAPE(&y));
    in->n_out = 1;
    in->out[0] = in->in[0];
    return st;
}

static const struct clcnn_attr_info table[] = {
    ATTR_ENUM(loss_attrs, reduction, 0, "mean|none", "the mean of all samples, or a loss each"),
    ATTR(FLOAT, loss_attrs, label_smoothing, 0.0,
         "share of the label's weight that goes to all classes alike"),
};

const struct op_def op_cross_entropy = {
    .name = "cross_entropy",
    .doc = "-log(softmax(x)[label]) of logits x[N,C] and labels[N]; NaN for a label that is no class",
    .inputs = "x labels",
    ATTRS(table, loss_attrs),
    .types = "f l > f",
    .infer = infer_cross_entropy,
};

const struct op_def op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .doc = "gradient of cross_entropy's x from that of its result: (softmax(x) - 1 at the label) * dy, by 1 "
           "/ N for "
           "the mean",
    .inputs = "x labels dy",
    ATTRS(table, loss_attrs),
    .types = "f l f > f",
    .infer = infer_cross_entropy_grad,
};
