/* update.c: what an optimiser does to its parameters, as torch.optim defines it: flat arrays in one pass. */
#include "ops/rules.h"

/* Inputs 0 to `arrays` - 1 have one shape, one dimension; the last one is (lr, step), or that and a momentum. The
 * gradient has no new value. */
static enum clcnn_status infer_update(struct infer *in, int arrays, struct clcnn_err *err)
{
    static const char *const names[] = {"p", "g", "m", "v"};
    const struct clcnn_shape *p = &in->in[0];
    enum clcnn_status st = CLCNN_OK;

    if (p->rank != 1)
        return shape_fail(in, err, "input p %s must have one dimension (reshape it)", SHAPE(p));
    for (int i = 1; i < arrays; i++)
        TRY(rule_vector(in, i, names[i], p->dim[0], err));
    const struct clcnn_shape *hyper = &in->in[arrays];
    if (hyper->rank != 1 || hyper->dim[0] < 2 || hyper->dim[0] > 3)
        return shape_fail(in, err, "input hyper %s must be [2] or [3]", SHAPE(hyper));
    in->n_out = arrays - 1;
    for (int i = 0; i < in->n_out; i++)
        in->out[i] = *p;
done:
    return st;
}

static enum clcnn_status check_rate(const struct infer *in, const char *name, float value, float below,
                                    struct clcnn_err *err)
{
    if (value >= 0.0f && value < below)
        return CLCNN_OK;
    if (below < INFINITY)
        return value_fail(in, err, "%s=%g must be from 0 to below %g", name, (double)value, (double)below);
    return value_fail(in, err, "%s=%g must be finite and not negative", name, (double)value);
}

static enum clcnn_status infer_sgd(struct infer *in, struct clcnn_err *err)
{
    const struct sgd_attrs *a = in->attrs;
    enum clcnn_status st = CLCNN_OK;

    TRY(check_rate(in, "momentum", a->momentum, INFINITY, err));
    TRY(check_rate(in, "weight_decay", a->weight_decay, INFINITY, err));
    if (a->nesterov && !(a->momentum > 0.0f))
        return value_fail(in, err, "nesterov=true needs a momentum above 0");
    TRY(infer_update(in, 3, err));
done:
    return st;
}

static enum clcnn_status infer_adamw(struct infer *in, struct clcnn_err *err)
{
    const struct adamw_attrs *a = in->attrs;
    enum clcnn_status st = CLCNN_OK;

    TRY(check_rate(in, "beta1", a->beta1, 1.0f, err));
    TRY(check_rate(in, "beta2", a->beta2, 1.0f, err));
    TRY(check_rate(in, "epsilon", a->epsilon, INFINITY, err));
    TRY(check_rate(in, "weight_decay", a->weight_decay, INFINITY, err));
    TRY(infer_update(in, 4, err));
done:
    return st;
}

static const struct clcnn_attr_info sgd_table[] = {
    ATTR(FLOAT, sgd_attrs, momentum, 0.0, "part of m that stays in its new value"),
    ATTR(FLOAT, sgd_attrs, weight_decay, 0.0, "so many p are added to the gradient"),
    ATTR(BOOL, sgd_attrs, nesterov, 0, "go by the gradient and the new m, not by the new m alone"),
};
static const struct clcnn_attr_info adamw_table[] = {
    ATTR(FLOAT, adamw_attrs, beta1, 0.9, "part of m that stays in its new value"),
    ATTR(FLOAT, adamw_attrs, beta2, 0.999, "part of v that stays in its new value"),
    ATTR(FLOAT, adamw_attrs, epsilon, 1e-8, "added to the root of v"),
    ATTR(FLOAT, adamw_attrs, weight_decay, 0.01, "so many lr * p are taken off p"),
    ATTR(BOOL, adamw_attrs, decoupled, 1, "AdamW; false: Adam, where so many p are added to the gradient"),
};

const struct op_def op_sgd_update = {
    .name = "sgd_update",
    .doc = "new p and m of torch.optim.SGD, for m of zeros at first: m = momentum * m + g, p = p - lr * m; "
           "hyper is (lr, step), or (lr, step, momentum) with a momentum in the place of the attribute",
    .inputs = "p g m hyper",
    ATTRS(sgd_table, sgd_attrs),
    .infer = infer_sgd,
    .renews = {1, 3},
};

const struct op_def op_adamw_update = {
    .name = "adamw_update",
    .doc = "new p, m and v of torch.optim.AdamW, or Adam, for m and v of zeros at first; hyper is (lr, "
           "step), or (lr, step, beta1) with a beta1 in the place of the attribute; the first step is 1",
    .inputs = "p g m v hyper",
    ATTRS(adamw_table, adamw_attrs),
    .infer = infer_adamw,
    .renews = {1, 3, 4},
};
