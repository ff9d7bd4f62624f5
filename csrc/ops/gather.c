/* gather.c: choosing elements: by indices, or between two arguments. */
#include "ops/rules.h"

/* ---- by indices ---------------------------------------------------------------------------------------- */

static enum clcnn_status infer_gather(struct infer *in, struct clcnn_err *err)
{
    struct dim_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *index = &in->in[1];
    struct clcnn_shape *out = &in->out[0];
    enum clcnn_status st;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    in->n_out = 1;
    *out = (struct clcnn_shape){0};
    TRY(rule_push_range(in, out, x, 0, (int)a->dim, err));
    TRY(rule_push_range(in, out, index, 0, index->rank, err));
    TRY(rule_push_range(in, out, x, (int)a->dim + 1, x->rank, err));
done:
    return st;
}

static enum clcnn_status infer_elements(struct infer *in, struct clcnn_err *err)
{
    struct dim_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *index = &in->in[1];
    enum clcnn_status st;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    if (x->rank != index->rank) {
        return shape_fail(in, err, "indices have shape %s, expected as many dimensions as input %s",
                          SHAPE(index), SHAPE(x));
    }
    for (int i = 0; i < x->rank; i++) {
        if (i != a->dim && index->dim[i] > x->dim[i]) {
            return shape_fail(in, err, "indices of shape %s are larger than input %s in dimension %d",
                              SHAPE(index), SHAPE(x), i);
        }
    }
    in->n_out = 1;
    in->out[0] = *index;
done:
    return st;
}

static enum clcnn_status infer_nd(struct infer *in, struct clcnn_err *err)
{
    const struct gather_nd_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *index = &in->in[1];
    struct clcnn_shape *out = &in->out[0];
    const int batch = a->batch_dims, last = index->rank - 1;
    enum clcnn_status st = CLCNN_OK;

    if (last < 0 || batch < 0 || batch > last || batch > x->rank) {
        return shape_fail(in, err,
                          "batch_dims=%d does not leave input %s and indices %s a dimension for indices",
                          batch, SHAPE(x), SHAPE(index));
    }
    if (index->dim[last] > x->rank - batch) {
        return shape_fail(in, err,
                          "indices of shape %s are of %d numbers, but input %s has %d dimensions behind %d",
                          SHAPE(index), (int)index->dim[last], SHAPE(x), (int)x->rank - batch, batch);
    }
    for (int i = 0; i < batch; i++) {
        if (x->dim[i] != index->dim[i]) {
            return shape_fail(in, err, "input %s and indices %s differ in their first %d dimensions",
                              SHAPE(x), SHAPE(index), batch);
        }
    }
    in->n_out = 1;
    *out = (struct clcnn_shape){0};
    TRY(rule_push_range(in, out, index, 0, last, err));
    TRY(rule_push_range(in, out, x, batch + index->dim[last], x->rank, err));
done:
    return st;
}

static const struct clcnn_attr_info gather_table[] = {
    ATTR(INT, dim_attrs, dim, 0, "dimension of x that indices count in"),
};
static const struct clcnn_attr_info nd_table[] = {
    ATTR(INT, gather_nd_attrs, batch_dims, 0, "leading dimensions that x and indices share"),
};

const struct op_def op_gather = {
    .name = "gather",
    .doc = "slices of x along dim, numpy.take: negative indices count from the end, others outside give NaN, "
           "or 0 for "
           "integers",
    .inputs = "x indices",
    ATTRS(gather_table, dim_attrs),
    .types = "Tflib li > T",
    .infer = infer_gather,
};

const struct op_def op_gather_elements = {
    .name = "gather_elements",
    .doc = "an element of x for each index, which takes its own place's along dim (numpy.take_along_axis)",
    .inputs = "x indices",
    ATTRS(gather_table, dim_attrs),
    .types = "Tflib li > T",
    .infer = infer_elements,
};

const struct op_def op_gather_nd = {
    .name = "gather_nd",
    .doc = "slices of x, each picked by the numbers along the last dimension of indices (ONNX GatherND)",
    .inputs = "x indices",
    ATTRS(nd_table, gather_nd_attrs),
    .types = "Tflib li > T",
    .infer = infer_nd,
};

/* ---- to places that indices tell ------------------------------------------------------------------------ */

static enum clcnn_status infer_scatter(struct infer *in, struct clcnn_err *err)
{
    struct scatter_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *index = &in->in[1];
    struct clcnn_shape wanted = *x;
    enum clcnn_status st;

    TRY(rule_axis(in, "dim", &a->dim, x->rank, err));
    if (index->rank != 1)
        return shape_fail(in, err, "indices have shape %s, expected one dimension", SHAPE(index));
    wanted.dim[a->dim] = index->dim[0];
    if (!shape_equal(&wanted, &in->in[2])) {
        return shape_fail(in, err, "updates have shape %s, expected %s for input %s", SHAPE(&in->in[2]),
                          SHAPE(&wanted), SHAPE(x));
    }
    in->n_out = 1;
    in->out[0] = *x;
done:
    return st;
}

static enum clcnn_status infer_nonzero(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st;

    in->n_out = 2;
    in->out[0] = (struct clcnn_shape){0};
    TRY(rule_push(in, &in->out[0], shape_count(&in->in[0]), err));
    in->out[1] = (struct clcnn_shape){.rank = 1, .dim = {1}};
done:
    return st;
}

static const struct clcnn_attr_info scatter_table[] = {
    ATTR(INT, scatter_attrs, dim, 0, "dimension of x that indices count in"),
    ATTR_ENUM(scatter_attrs, reduction, 0, "none|add|mul|max|min",
              "what becomes of the slice that was there; none: the update takes its place"),
};

const struct op_def op_scatter = {
    .name = "scatter",
    .doc = "x whose slices along dim that indices name are changed by those of updates, one after the other: "
           "negative "
           "indices count from the end, others outside name none",
    .inputs = "x indices updates",
    ATTRS(scatter_table, scatter_attrs),
    .types = "Tfli li T > T",
    .infer = infer_scatter,
};

const struct op_def op_nonzero = {
    .name = "nonzero",
    .doc = "numbers of the elements that are not 0, in row-major order, -1 behind the last one, and how many "
           "there are",
    .inputs = "x",
    .types = "Tflib > l l",
    .infer = infer_nonzero,
};

/* ---- between two arguments ----------------------------------------------------------------------------- */

static enum clcnn_status infer_where(struct infer *in, struct clcnn_err *err)
{
    struct clcnn_shape both;

    in->n_out = 1;
    if (broadcast_shapes(&in->in[1], &in->in[2], &both) && broadcast_shapes(&in->in[0], &both, &in->out[0]))
        return CLCNN_OK;
    return shape_fail(in, err,
                      "shapes %s, %s and %s do not broadcast (from the right, sizes must be equal or 1)",
                      SHAPE(&in->in[0]), SHAPE(&in->in[1]), SHAPE(&in->in[2]));
}

const struct op_def op_where = {
    .name = "where",
    .doc = "a where cond is true, b elsewhere, with NumPy broadcasting of all three",
    .inputs = "cond a b",
    .types = "b Tflib T > T",
    .infer = infer_where,
};
