/* line.c: operators that look at the elements along one dimension in order. */
#include "ops/rules.h"

static enum clcnn_status infer_argmax(struct infer *in, struct clcnn_err *err)
{
    struct line_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    struct clcnn_shape *out = &in->out[0];
    enum clcnn_status st;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    in->n_out = 1;
    *out = (struct clcnn_shape){0};
    for (int i = 0; i < x->rank; i++) {
        if (i != a->dim || a->keepdims)
            out->dim[out->rank++] = i == a->dim ? 1 : x->dim[i];
    }
done:
    return st;
}

static enum clcnn_status infer_cumsum(struct infer *in, struct clcnn_err *err)
{
    struct line_attrs *a = in->attrs;

    in->n_out = 1;
    in->out[0] = in->in[0];
    return rule_axis(in, "dim", &a->dim, in->in[0].rank, err);
}

static enum clcnn_status infer_topk(struct infer *in, struct clcnn_err *err)
{
    struct topk_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    if (a->k < 1 || a->k > x->dim[a->dim]) {
        return value_fail(in, err, "k=%d must be from 1 to %d, the size of dimension %d of input %s",
                          (int)a->k, (int)x->dim[a->dim], (int)a->dim, SHAPE(x));
    }
    in->n_out = 2;
    in->out[0] = *x;
    in->out[0].dim[a->dim] = a->k;
    in->out[1] = in->out[0];
done:
    return st;
}

static const struct clcnn_attr_info argmax_table[] = {
    ATTR(INT, line_attrs, dim, 0, "dimension to look along"),
    ATTR(BOOL, line_attrs, keepdims, 1, "leave the dimension as a one"),
    ATTR(BOOL, line_attrs, select_last_index, 0, "of equal elements take the last one"),
};
static const struct clcnn_attr_info cumsum_table[] = {
    ATTR(INT, line_attrs, dim, 0, "dimension to add up along"),
    ATTR(BOOL, line_attrs, exclusive, 0, "leave the element itself out of its sum"),
    ATTR(BOOL, line_attrs, reverse, 0, "begin at the end"),
};
static const struct clcnn_attr_info topk_table[] = {
    ATTR_REQUIRED(INT, topk_attrs, k, "how many"),
    ATTR(INT, topk_attrs, dim, -1, "dimension to look along"),
    ATTR(BOOL, topk_attrs, largest, 1, "the largest, else the smallest"),
    ATTR(BOOL, topk_attrs, sorted, 1, "in order; they always are"),
};

const struct op_def op_argmax = {
    .name = "argmax",
    .doc = "index along dim of the largest element, the first one of equals; NaN counts as the largest",
    .inputs = "x",
    ATTRS(argmax_table, line_attrs),
    .types = "fli > l",
    .infer = infer_argmax,
};

const struct op_def op_argmin = {
    .name = "argmin",
    .doc = "index along dim of the smallest element, the first one of equals; NaN counts as the smallest",
    .inputs = "x",
    ATTRS(argmax_table, line_attrs),
    .types = "fli > l",
    .infer = infer_argmax,
};

const struct op_def op_cumsum = {
    .name = "cumsum",
    .doc = "sums of x along dim up to each element",
    .inputs = "x",
    ATTRS(cumsum_table, line_attrs),
    .types = "Tfli > T",
    .infer = infer_cumsum,
};

const struct op_def op_topk = {
    .name = "topk",
    .doc = "the k largest or smallest elements along dim and their indices, equals by index; NaN counts as "
           "the largest",
    .inputs = "x",
    ATTRS(topk_table, topk_attrs),
    .types = "Tfli > T l",
    .infer = infer_topk,
};
