/* reduce.c: reductions over any set of dimensions. */
#include "ops/rules.h"

static enum clcnn_status infer_reduce(struct infer *in, struct clcnn_err *err)
{
    struct reduce_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    struct clcnn_shape *out = &in->out[0];
    enum clcnn_status st;
    int next = 0;

    TRY(rule_axes(in, "axes", &a->axes, x->rank, err));
    if (a->axes.n == 0) {
        for (int32_t axis = 0; axis < x->rank; axis++)
            a->axes.v[a->axes.n++] = axis;
    }
    in->n_out = 1;
    *out = (struct clcnn_shape){0};
    for (int i = 0; i < x->rank; i++) {
        bool reduced = next < a->axes.n && a->axes.v[next] == i;
        next += reduced;
        if (!reduced || a->keepdims)
            out->dim[out->rank++] = reduced ? 1 : x->dim[i];
    }
done:
    return st;
}

static const struct clcnn_attr_info table[] = {
    ATTR(INTS, reduce_attrs, axes, EMPTY, "dimensions to reduce; all when empty"),
    ATTR(BOOL, reduce_attrs, keepdims, 1, "leave reduced dimensions as ones"),
};

#define REDUCTION(name_, what, types_) \
    const struct op_def op_##name_ = { \
        .name = #name_,                \
        .doc = what " of x over axes", \
        .inputs = "x",                 \
        ATTRS(table, reduce_attrs),    \
        .types = types_,               \
        .infer = infer_reduce,         \
    };
REDUCTION(reduce_sum, "sum", "Tfli > T")
REDUCTION(reduce_prod, "product", "Tfli > T")
REDUCTION(reduce_mean, "mean", NULL)
REDUCTION(reduce_max, "maximum", "Tflib > T")
REDUCTION(reduce_min, "minimum", "Tflib > T")
