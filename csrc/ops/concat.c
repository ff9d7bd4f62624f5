/* concat.c: joining and splitting along a dimension. */
#include "ops/rules.h"

static enum clcnn_status infer_concat(struct infer *in, struct clcnn_err *err)
{
    struct dim_attrs *a = in->attrs;
    const struct clcnn_shape *first = &in->in[0];
    enum clcnn_status st;
    int64_t total = 0;

    TRY(rule_axis(in, "dim", &a->dim, first->rank, err));
    for (int k = 0; k < in->n_in; k++) {
        const struct clcnn_shape *x = &in->in[k];
        if (x->rank != first->rank) {
            return shape_fail(in, err,
                              "input %d has shape %s but input 0 has %s: all must have as many dimensions", k,
                              SHAPE(x), SHAPE(first));
        }
        for (int i = 0; i < x->rank; i++) {
            if (i != a->dim && x->dim[i] != first->dim[i]) {
                return shape_fail(
                    in, err, "input %d has shape %s but input 0 has %s: they may differ in dimension %d only",
                    k, SHAPE(x), SHAPE(first), (int)a->dim);
            }
        }
        total += x->dim[a->dim];
    }
    if (total > INT32_MAX)
        return shape_fail(in, err, "dimension %d of the output would be %lld", (int)a->dim, (long long)total);
    in->n_out = 1;
    in->out[0] = *first;
    in->out[0].dim[a->dim] = (int32_t)total;
done:
    return st;
}

static enum clcnn_status infer_split(struct infer *in, struct clcnn_err *err)
{
    struct split_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;
    int64_t total = 0;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    if (a->sizes.n == 0)
        return value_fail(in, err, "sizes is empty, expected one size an output");
    for (int i = 0; i < a->sizes.n; i++) {
        if (a->sizes.v[i] < 1)
            return value_fail(in, err, "sizes=%s: every size must be at least 1", INTS(&a->sizes));
        total += a->sizes.v[i];
        in->out[i] = *x;
        in->out[i].dim[a->dim] = a->sizes.v[i];
    }
    if (total != x->dim[a->dim]) {
        return shape_fail(in, err, "sizes=%s add up to %lld, but dimension %d of input %s is %d",
                          INTS(&a->sizes), (long long)total, (int)a->dim, SHAPE(x), (int)x->dim[a->dim]);
    }
    in->n_out = a->sizes.n;
done:
    return st;
}

static const struct clcnn_attr_info concat_table[] = {
    ATTR(INT, dim_attrs, dim, 1, "dimension along which inputs are joined"),
};
static const struct clcnn_attr_info split_table[] = {
    ATTR_REQUIRED(INTS, split_attrs, sizes, "size of each output along dim"),
    ATTR(INT, split_attrs, dim, 1, "dimension to split"),
};

const struct op_def op_concat = {
    .name = "concat",
    .doc = "inputs one after the other along dim; their other dimensions must be equal",
    .inputs = "xs...",
    ATTRS(concat_table, dim_attrs),
    .types = "Tflib > T",
    .infer = infer_concat,
    .role = ROLE_CONCAT,
    .by_item = true,
};

const struct op_def op_split = {
    .name = "split",
    .doc = "consecutive parts of x along dim",
    .inputs = "x",
    ATTRS(split_table, split_attrs),
    .types = "Tflib > T",
    .infer = infer_split,
    .role = ROLE_SPLIT,
};
