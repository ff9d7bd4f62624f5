/* norm.c: batch normalisation (inference), local response normalisation, softmax, as PyTorch defines them. */
#include "ops/rules.h"

static enum clcnn_status infer_batch_norm(struct infer *in, struct clcnn_err *err)
{
    static const char *const names[] = {"x", "weight", "bias", "running_mean", "running_var"};
    const struct norm_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st = CLCNN_OK;

    if (x->rank < 2)
        return shape_fail(in, err, "input %s has no channel dimension (expected [N, C, ...])", SHAPE(x));
    if (!(a->eps >= 0.0f))
        return value_fail(in, err, "eps=%g must not be negative", (double)a->eps);
    for (int i = 1; i < COUNT_OF(names); i++)
        TRY(rule_vector(in, i, names[i], x->dim[1], err));
    in->n_out = 1;
    in->out[0] = *x;
done:
    return st;
}

/* What the batch's own statistics take: x, and more than one value a channel, or the variance says nothing. */
static enum clcnn_status check_train(const struct infer *in, const struct clcnn_shape *x,
                                     struct clcnn_err *err)
{
    const struct norm_train_attrs *a = in->attrs;

    if (x->rank < 2)
        return shape_fail(in, err, "input %s has no channel dimension (expected [N, C, ...])", SHAPE(x));
    if (!(a->eps >= 0.0f))
        return value_fail(in, err, "eps=%g must not be negative", (double)a->eps);
    if (!(a->low < a->high))
        return value_fail(in, err, "low=%g must be less than high=%g", (double)a->low, (double)a->high);
    if (shape_count(x) == x->dim[1])
        return shape_fail(in, err, "input %s has one value a channel, of which there are no statistics",
                          SHAPE(x));
    return CLCNN_OK;
}

static enum clcnn_status infer_batch_norm_train(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;

    TRY(check_train(in, x, err));
    TRY(rule_vector(in, 1, "weight", x->dim[1], err));
    TRY(rule_vector(in, 2, "bias", x->dim[1], err));
    in->n_out = 3;
    in->out[0] = *x;
    in->out[1] = in->out[2] = (struct clcnn_shape){.rank = 1, .dim = {x->dim[1]}};
done:
    return st;
}

static enum clcnn_status infer_batch_norm_train_grad(struct infer *in, struct clcnn_err *err)
{
    static const char *const names[] = {"dy", "x", "weight", "mean", "var", "bias"};
    const struct clcnn_shape *dy = &in->in[0], *x = &in->in[1];
    enum clcnn_status st;

    TRY(check_train(in, x, err));
    if (!shape_equal(dy, x))
        return shape_fail(in, err, "dy has shape %s, expected that of input %s", SHAPE(dy), SHAPE(x));
    for (int i = 2; i < COUNT_OF(names); i++)
        TRY(rule_vector(in, i, names[i], x->dim[1], err));
    in->n_out = 3;
    in->out[0] = *x;
    in->out[1] = in->out[2] = (struct clcnn_shape){.rank = 1, .dim = {x->dim[1]}};
done:
    return st;
}

static enum clcnn_status infer_lrn(struct infer *in, struct clcnn_err *err)
{
    const struct lrn_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];

    if (x->rank < 2)
        return shape_fail(in, err, "input %s has no channel dimension (expected [N, C, ...])", SHAPE(x));
    if (a->size < 1)
        return value_fail(in, err, "size=%d must be at least 1", (int)a->size);
    in->n_out = 1;
    in->out[0] = *x;
    return CLCNN_OK;
}

static enum clcnn_status infer_softmax(struct infer *in, struct clcnn_err *err)
{
    struct dim_attrs *a = in->attrs;

    in->n_out = 1;
    in->out[0] = in->in[0];
    return rule_axis(in, "dim", &a->dim, in->in[0].rank, err);
}

static const struct clcnn_attr_info batch_norm_table[] = {
    ATTR(FLOAT, norm_attrs, eps, 1e-5, "added to the variance"),
};
static const struct clcnn_attr_info batch_norm_train_table[] = {
    ATTR(FLOAT, norm_train_attrs, eps, 1e-5, "added to the variance"),
    ATTR(FLOAT, norm_train_attrs, low, -INFINITY, "what is below it becomes it: 0 for a ReLU"),
    ATTR(FLOAT, norm_train_attrs, high, INFINITY, "what is above it becomes it"),
};
static const struct clcnn_attr_info lrn_table[] = {
    ATTR_REQUIRED(INT, lrn_attrs, size, "number of neighbouring channels"),
    ATTR(FLOAT, lrn_attrs, alpha, 1e-4, "factor of their mean square"),
    ATTR(FLOAT, lrn_attrs, beta, 0.75, "exponent"),
    ATTR(FLOAT, lrn_attrs, k, 1.0, "added to the scaled mean square"),
};
static const struct clcnn_attr_info softmax_table[] = {
    ATTR(INT, dim_attrs, dim, -1, "dimension along which the result sums to one"),
};

const struct op_def op_batch_norm = {
    .name = "batch_norm",
    .doc = "(x - running_mean[C]) / sqrt(running_var[C] + eps) * weight[C] + bias[C] for x[N,C,...]",
    .inputs = "x weight bias running_mean running_var",
    ATTRS(batch_norm_table, norm_attrs),
    .infer = infer_batch_norm,
    .fuses = true,
    .by_item = true,
};

const struct op_def op_batch_norm_train = {
    .name = "batch_norm_train",
    .doc = "batch_norm by the mean and biased variance of x[N,C,...] itself, which are results too: y, "
           "clipped to low and high, mean[C], var[C]",
    .inputs = "x weight bias",
    ATTRS(batch_norm_train_table, norm_train_attrs),
    .infer = infer_batch_norm_train,
    .fuses = true,
};

const struct op_def op_batch_norm_train_grad = {
    .name = "batch_norm_train_grad",
    .doc = "gradients of batch_norm_train's x, weight and bias from that of its y, with the mean and "
           "variance it gave; none go through y at its limits",
    .inputs = "dy x weight mean var bias",
    ATTRS(batch_norm_train_table, norm_train_attrs),
    .infer = infer_batch_norm_train_grad,
};

const struct op_def op_local_response_norm = {
    .name = "local_response_norm",
    .doc = "x / (k + alpha * mean square over channels c - size/2 to c + (size-1)/2) ^ beta; absent channels "
           "are zero",
    .inputs = "x",
    ATTRS(lrn_table, lrn_attrs),
    .infer = infer_lrn,
    .by_item = true,
};

const struct op_def op_softmax = {
    .name = "softmax",
    .doc = "exp(x) divided by its sum along dim",
    .inputs = "x",
    ATTRS(softmax_table, dim_attrs),
    .infer = infer_softmax,
};

const struct op_def op_log_softmax = {
    .name = "log_softmax",
    .doc = "logarithm of softmax along dim",
    .inputs = "x",
    ATTRS(softmax_table, dim_attrs),
    .infer = infer_softmax,
};

/* ---- rows that are normalised by their own statistics -------------------------------------------------- */

static enum clcnn_status infer_groups(struct infer *in, struct clcnn_err *err)
{
    const struct rows_norm_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st = CLCNN_OK;

    if (x->rank < 2)
        return shape_fail(in, err, "input %s needs at least batch and channels", SHAPE(x));
    if (in->op == &op_group_norm && (a->groups < 1 || x->dim[1] % a->groups != 0)) {
        return shape_fail(in, err, "groups=%d must divide the %d channels of input %s", (int)a->groups,
                          (int)x->dim[1], SHAPE(x));
    }
    TRY(rule_vector(in, 1, "weight", x->dim[1], err));
    TRY(rule_vector(in, 2, "bias", x->dim[1], err));
    in->n_out = 1;
    in->out[0] = *x;
done:
    return st;
}

/* Sets `dims` to the number of dimensions that are normalised together. */
static enum clcnn_status infer_layer(struct infer *in, struct clcnn_err *err)
{
    struct rows_norm_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    struct clcnn_shape tail = {0};
    enum clcnn_status st;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    if (a->dims < 0 || a->dims > x->rank - a->dim)
        return value_fail(in, err, "dims=%d must be 0 (all) to %d, the dimensions of input %s from dim=%d on",
                          (int)a->dims, x->rank - (int)a->dim, SHAPE(x), (int)a->dim);
    a->dims = a->dims ? a->dims : x->rank - a->dim;
    if (!(a->eps >= 0.0f))
        return value_fail(in, err, "eps=%g must not be negative", (double)a->eps);
    for (int i = a->dim; i < a->dim + a->dims; i++)
        tail.dim[tail.rank++] = x->dim[i];
    for (int i = 1; i < in->n_in; i++) {
        if (input_present(in, i) && !shape_equal(&in->in[i], &tail)) {
            return shape_fail(in, err, "%s has shape %s, expected %s, dimensions %d to %d of input %s",
                              i == 1 ? "weight" : "bias", SHAPE(&in->in[i]), SHAPE(&tail), (int)a->dim,
                              (int)(a->dim + a->dims) - 1, SHAPE(x));
        }
    }
    in->n_out = 1;
    in->out[0] = *x;
done:
    return st;
}

static enum clcnn_status infer_l2(struct infer *in, struct clcnn_err *err)
{
    ((struct rows_norm_attrs *)in->attrs)->dims = 1;
    return infer_layer(in, err);
}

static const struct clcnn_attr_info instance_table[] = {
    ATTR(FLOAT, rows_norm_attrs, eps, 1e-5, "added to the variance"),
};
static const struct clcnn_attr_info group_table[] = {
    ATTR_REQUIRED(INT, rows_norm_attrs, groups, "how many groups the channels make"),
    ATTR(FLOAT, rows_norm_attrs, eps, 1e-5, "added to the variance"),
};
static const struct clcnn_attr_info layer_table[] = {
    ATTR(INT, rows_norm_attrs, dim, -1, "first of the dimensions that are normalised together"),
    ATTR(INT, rows_norm_attrs, dims, 0, "how many they are; 0: all from dim on"),
    ATTR(FLOAT, rows_norm_attrs, eps, 1e-5, "added to the variance"),
};
static const struct clcnn_attr_info rms_table[] = {
    ATTR(INT, rows_norm_attrs, dim, -1, "first of the dimensions that are normalised together"),
    ATTR(INT, rows_norm_attrs, dims, 0, "how many they are; 0: all from dim on"),
    ATTR(FLOAT, rows_norm_attrs, eps, 1e-5, "added to the mean square"),
};
static const struct clcnn_attr_info l2_table[] = {
    ATTR(INT, rows_norm_attrs, dim, -1, "dimension along which squares are added up"),
    ATTR(FLOAT, rows_norm_attrs, eps, 1e-12, "the least that is divided by"),
};

const struct op_def op_instance_norm = {
    .name = "instance_norm",
    .doc = "each channel of each item of x[N,C,...] by its own mean and variance, then weight[C] and bias[C]",
    .inputs = "x weight? bias?",
    ATTRS(instance_table, rows_norm_attrs),
    .infer = infer_groups,
    .acts = true,
};

const struct op_def op_group_norm = {
    .name = "group_norm",
    .doc = "groups of channels of each item of x[N,C,...] by their mean and variance, then weight[C] and "
           "bias[C]",
    .inputs = "x weight? bias?",
    ATTRS(group_table, rows_norm_attrs),
    .infer = infer_groups,
    .acts = true,
};

const struct op_def op_layer_norm = {
    .name = "layer_norm",
    .doc = "x by mean and variance over dims dimensions from dim on, then weight and bias of their shape",
    .inputs = "x weight? bias?",
    ATTRS(layer_table, rows_norm_attrs),
    .infer = infer_layer,
    .acts = true,
};

const struct op_def op_rms_norm = {
    .name = "rms_norm",
    .doc = "x / sqrt(mean square over dims dimensions from dim on + eps), then weight of their shape",
    .inputs = "x weight?",
    ATTRS(rms_table, rows_norm_attrs),
    .infer = infer_layer,
    .acts = true,
};

const struct op_def op_l2_norm = {
    .name = "l2_norm",
    .doc = "x / max(root of the sum of squares along dim, eps)",
    .inputs = "x",
    ATTRS(l2_table, rows_norm_attrs),
    .infer = infer_l2,
    .acts = true,
};
