/* reshape.c: the same elements under another shape: reshape, flatten, squeeze, unsqueeze, dropout, identity;
 * and, with elements moved or repeated, transpose and expand. */
#include "ops/rules.h"

/* ---- reshape ------------------------------------------------------------------------------------------- */

/* Resolves 0 (copy the input's dimension) and refuses what no reshape can be; *inferred is the place of -1,
 * or -1. */
static enum clcnn_status resolve_zeros(const struct infer *in, struct ints *shape, int *inferred,
                                       struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0];

    *inferred = -1;
    if (shape->n > CLCNN_MAX_RANK) {
        return value_fail(in, err, "shape=%s has %d dimensions, the limit is %d", INTS(shape), (int)shape->n,
                          CLCNN_MAX_RANK);
    }
    for (int i = 0; i < shape->n; i++) {
        if (shape->v[i] < -1 || (shape->v[i] == -1 && *inferred >= 0)) {
            return value_fail(in, err, "shape=%s: sizes are positive, 0 (copy) or, once, -1 (infer)",
                              INTS(shape));
        }
        if (shape->v[i] == 0 && i >= x->rank) {
            return shape_fail(in, err, "shape=%s copies dimension %d, which input %s does not have",
                              INTS(shape), i, SHAPE(x));
        }
        if (shape->v[i] == 0)
            shape->v[i] = x->dim[i];
        if (shape->v[i] == -1)
            *inferred = i;
    }
    return CLCNN_OK;
}

static enum clcnn_status infer_reshape(struct infer *in, struct clcnn_err *err)
{
    struct ints *shape = &((struct shape_attrs *)in->attrs)->shape;
    const struct clcnn_shape *x = &in->in[0];
    int64_t count = shape_count(x), product = 1;
    enum clcnn_status st;
    int inferred;

    TRY(resolve_zeros(in, shape, &inferred, err));
    for (int i = 0; i < shape->n; i++) {
        if (i == inferred)
            continue;
        product *= shape->v[i];
        if (product > count)
            break; /* no fit, and the next product might overflow */
    }
    if (inferred >= 0 ? count % product != 0 : product != count) {
        return shape_fail(in, err, "input %s with %lld elements does not reshape to %s", SHAPE(x),
                          (long long)count, INTS(shape));
    }
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){0};
    for (int i = 0; i < shape->n; i++) {
        TRY(rule_push(in, &in->out[0], i == inferred ? count / product : shape->v[i], err));
        shape->v[i] = in->out[0].dim[i];
    }
done:
    return st;
}

/* ---- flatten, squeeze, unsqueeze, identity ------------------------------------------------------------- */

static enum clcnn_status infer_flatten(struct infer *in, struct clcnn_err *err)
{
    struct flatten_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st = CLCNN_OK;

    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){.rank = 1, .dim = {1}};
    if (x->rank == 0)
        return CLCNN_OK;
    TRY(rule_axis(in, "start_dim", &a->start_dim, x->rank, err));
    TRY(rule_axis(in, "end_dim", &a->end_dim, x->rank, err));
    if (a->start_dim > a->end_dim) {
        return value_fail(in, err, "start_dim=%d comes after end_dim=%d for input %s", (int)a->start_dim,
                          (int)a->end_dim, SHAPE(x));
    }
    in->out[0] = *x;
    in->out[0].rank = a->start_dim;
    struct clcnn_shape head = *x;
    head.rank = a->end_dim + 1;
    TRY(rule_push(in, &in->out[0], shape_count_from(&head, a->start_dim), err));
    TRY(rule_push_range(in, &in->out[0], x, head.rank, x->rank, err));
done:
    return st;
}

static enum clcnn_status infer_squeeze(struct infer *in, struct clcnn_err *err)
{
    struct ints *axes = &((struct axes_attrs *)in->attrs)->axes;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;
    int next = 0;

    TRY(rule_axes(in, "axes", axes, x->rank, err));
    for (int i = 0; i < axes->n; i++) {
        if (x->dim[axes->v[i]] != 1) {
            return shape_fail(in, err, "dimension %d of input %s is %d, only a 1 can be removed",
                              (int)axes->v[i], SHAPE(x), (int)x->dim[axes->v[i]]);
        }
    }
    if (axes->n == 0) {
        for (int32_t i = 0; i < x->rank; i++) {
            if (x->dim[i] == 1)
                axes->v[axes->n++] = i;
        }
    }
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){0};
    for (int i = 0; i < x->rank; i++) {
        if (next < axes->n && axes->v[next] == i)
            next++;
        else
            in->out[0].dim[in->out[0].rank++] = x->dim[i];
    }
done:
    return st;
}

static enum clcnn_status infer_unsqueeze(struct infer *in, struct clcnn_err *err)
{
    struct ints *axes = &((struct axes_attrs *)in->attrs)->axes;
    const struct clcnn_shape *x = &in->in[0];
    struct clcnn_shape *out = &in->out[0];
    int rank = x->rank + axes->n, next = 0;
    enum clcnn_status st;

    if (rank > CLCNN_MAX_RANK) {
        return shape_fail(in, err, "input %s with %d more dimensions has more than %d", SHAPE(x),
                          (int)axes->n, CLCNN_MAX_RANK);
    }
    TRY(rule_axes(in, "axes", axes, rank, err));
    in->n_out = 1;
    *out = (struct clcnn_shape){.rank = rank};
    for (int i = 0; i < rank; i++) {
        bool added = next < axes->n && axes->v[next] == i;
        out->dim[i] = added ? 1 : x->dim[i - next];
        next += added;
    }
done:
    return st;
}

static enum clcnn_status infer_same(struct infer *in, struct clcnn_err *err)
{
    (void)err;
    in->n_out = 1;
    in->out[0] = in->in[0];
    return CLCNN_OK;
}

static enum clcnn_status infer_dropout(struct infer *in, struct clcnn_err *err)
{
    const struct dropout_attrs *a = in->attrs;

    if (!(a->p >= 0.0f && a->p <= 1.0f))
        return value_fail(in, err, "p=%g must be from 0 to 1", (double)a->p);
    return infer_same(in, err);
}

static enum clcnn_status infer_dropout_train(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *key = &in->in[1];

    if (key->rank != 1 || key->dim[0] != 2)
        return shape_fail(in, err, "key %s must be [2]: seed and step", SHAPE(key));
    return infer_dropout(in, err);
}

/* ---- transpose, expand --------------------------------------------------------------------------------- */

static enum clcnn_status infer_transpose(struct infer *in, struct clcnn_err *err)
{
    struct ints *perm = &((struct axes_attrs *)in->attrs)->axes, sorted = *perm;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;

    if (perm->n != x->rank) {
        return value_fail(in, err, "perm=%s has %d values, input %s has %d dimensions", INTS(perm),
                          (int)perm->n, SHAPE(x), (int)x->rank);
    }
    TRY(rule_axes(in, "perm", &sorted, x->rank, err));
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){.rank = x->rank};
    for (int i = 0; i < x->rank; i++) {
        perm->v[i] += perm->v[i] < 0 ? x->rank : 0;
        in->out[0].dim[i] = x->dim[perm->v[i]];
    }
done:
    return st;
}

static enum clcnn_status infer_expand(struct infer *in, struct clcnn_err *err)
{
    struct ints *shape = &((struct shape_attrs *)in->attrs)->shape;
    const struct clcnn_shape *x = &in->in[0];
    struct clcnn_shape target = {0}, *out = &in->out[0];
    enum clcnn_status st = CLCNN_OK;

    for (int i = 0; i < shape->n; i++) {
        if (shape->v[i] < 1)
            return value_fail(in, err, "shape=%s: every size must be at least 1", INTS(shape));
        TRY(rule_push(in, &target, shape->v[i], err));
    }
    if (!broadcast_shapes(x, &target, out)) {
        return shape_fail(in, err,
                          "input %s does not broadcast to %s (from the right, sizes must be equal or 1)",
                          SHAPE(x), INTS(shape));
    }
    in->n_out = 1;
    *shape = (struct ints){.n = out->rank};
    for (int i = 0; i < out->rank; i++)
        shape->v[i] = out->dim[i];
done:
    return st;
}

/* ---- tables -------------------------------------------------------------------------------------------- */

static const struct clcnn_attr_info reshape_table[] = {
    ATTR_REQUIRED(INTS, shape_attrs, shape, "sizes; 0 copies the input's, one -1 is inferred"),
};
static const struct clcnn_attr_info flatten_table[] = {
    ATTR(INT, flatten_attrs, start_dim, 1, "first dimension to join"),
    ATTR(INT, flatten_attrs, end_dim, -1, "last dimension to join"),
};
static const struct clcnn_attr_info squeeze_table[] = {
    ATTR(INTS, axes_attrs, axes, EMPTY, "dimensions of size 1 to remove; all of them when empty"),
};
static const struct clcnn_attr_info unsqueeze_table[] = {
    ATTR_REQUIRED(INTS, axes_attrs, axes, "places of the new ones in the output's shape"),
};
static const struct clcnn_attr_info dropout_table[] = {
    ATTR(FLOAT, dropout_attrs, p, 0.5, "probability to drop in training; inference drops nothing"),
};
static const struct clcnn_attr_info dropout_train_table[] = {
    ATTR(FLOAT, dropout_attrs, p, 0.5, "probability to drop"),
    ATTR(INT, dropout_attrs, layer, 0, "number of the layer: layers of other numbers draw by themselves"),
};
static const struct clcnn_attr_info transpose_table[] = {
    {.name = "perm",
     .doc = "the input's dimension for each of the output's",
     .kind = CLCNN_ATTR_INTS,
     .required = true,
     .def = EMPTY,
     .offset = offsetof(struct axes_attrs, axes)},
};
static const struct clcnn_attr_info expand_table[] = {
    ATTR_REQUIRED(INTS, shape_attrs, shape, "sizes to broadcast against"),
};

const struct op_def op_reshape = {
    .name = "reshape",
    .doc = "the elements of x, in row-major order, under another shape",
    .inputs = "x",
    ATTRS(reshape_table, shape_attrs),
    .types = "Tflib > T",
    .infer = infer_reshape,
    .alias = true,
};

const struct op_def op_flatten = {
    .name = "flatten",
    .doc = "dimensions start_dim to end_dim of x joined into one",
    .inputs = "x",
    ATTRS(flatten_table, flatten_attrs),
    .types = "Tflib > T",
    .infer = infer_flatten,
    .alias = true,
};

const struct op_def op_squeeze = {
    .name = "squeeze",
    .doc = "x without dimensions of size 1",
    .inputs = "x",
    ATTRS(squeeze_table, axes_attrs),
    .types = "Tflib > T",
    .infer = infer_squeeze,
    .alias = true,
};

const struct op_def op_unsqueeze = {
    .name = "unsqueeze",
    .doc = "x with new dimensions of size 1",
    .inputs = "x",
    ATTRS(unsqueeze_table, axes_attrs),
    .types = "Tflib > T",
    .infer = infer_unsqueeze,
    .alias = true,
};

const struct op_def op_dropout = {
    .name = "dropout",
    .doc = "x itself at inference",
    .inputs = "x",
    ATTRS(dropout_table, dropout_attrs),
    .types = "Tflib > T",
    .infer = infer_dropout,
    .alias = true,
};

const struct op_def op_dropout_train = {
    .name = "dropout_train",
    .doc = "x / (1 - p), and 0 where the number drawn for an element is below p: Philox4x32-10 (Salmon et "
           "al. 2011) with "
           "the seed as key and element, layer and step as counter, so that the same key gives the same mask",
    .inputs = "x key",
    ATTRS(dropout_train_table, dropout_attrs),
    .types = "f l > f",
    .infer = infer_dropout_train,
};

const struct op_def op_identity = {
    .name = "identity",
    .doc = "x itself",
    .inputs = "x",
    .types = "Tflib > T",
    .infer = infer_same,
    .alias = true,
};

const struct op_def op_transpose = {
    .name = "transpose",
    .doc = "x with its dimensions in the order perm",
    .inputs = "x",
    ATTRS(transpose_table, axes_attrs),
    .types = "Tflib > T",
    .infer = infer_transpose,
};

const struct op_def op_expand = {
    .name = "expand",
    .doc = "x repeated to its broadcast with shape, in both directions as ONNX Expand",
    .inputs = "x",
    ATTRS(expand_table, shape_attrs),
    .types = "Tflib > T",
    .infer = infer_expand,
};
