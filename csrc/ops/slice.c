/* slice.c: parts of an array by NumPy's slices, and padding with a constant. */
#include "ops/rules.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* One slice of a dimension of `size` by Python's rules. *start becomes the first index taken, and *end one
 * that gives the same slice again: for a negative step an end before the first element can only be written as
 * below -size. */
static int64_t slice_count(int32_t size, int32_t *start, int32_t *end, int32_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    int64_t first = clamp(*start < 0 ? (int64_t)*start + size : *start, low, high);
    int64_t last = clamp(*end < 0 ? (int64_t)*end + size : *end, low, high);
    int64_t distance = step > 0 ? last - first : first - last;
    int64_t width = step > 0 ? step : -(int64_t)step;

    *start = (int32_t)first;
    *end = (int32_t)(last < 0 ? -(int64_t)size - 1 : last);
    return distance > 0 ? (distance + width - 1) / width : 0;
}

/* Lists for the axes given become lists for all axes, in order. */
static enum clcnn_status spread_slices(const struct infer *in, struct slice_attrs *a, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0];
    struct slice_attrs all = {
        .axes = {.n = x->rank}, .starts = {.n = x->rank}, .ends = {.n = x->rank}, .steps = {.n = x->rank}};
    struct ints sorted = a->axes;
    enum clcnn_status st;
    int n = a->starts.n;

    if (a->ends.n != n)
        return value_fail(in, err, "starts=%s and ends=%s differ in length", INTS(&a->starts),
                          INTS(&a->ends));
    if (n > x->rank)
        return shape_fail(in, err, "starts=%s for input %s: more slices than dimensions", INTS(&a->starts),
                          SHAPE(x));
    if (a->axes.n != 0 && a->axes.n != n)
        return value_fail(in, err, "axes=%s has %d values, starts has %d", INTS(&a->axes), (int)a->axes.n, n);
    if (a->steps.n != n && a->steps.n != 1)
        return value_fail(in, err, "steps=%s has %d values, expected 1 or %d", INTS(&a->steps),
                          (int)a->steps.n, n);
    TRY(rule_axes(in, "axes", &sorted, x->rank, err));
    for (int i = 0; i < x->rank; i++) {
        all.axes.v[i] = i;
        all.ends.v[i] = x->dim[i];
        all.steps.v[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        int axis = a->axes.n == 0 ? i : a->axes.v[i] + (a->axes.v[i] < 0 ? x->rank : 0);
        all.starts.v[axis] = a->starts.v[i];
        all.ends.v[axis] = a->ends.v[i];
        all.steps.v[axis] = a->steps.v[a->steps.n == 1 ? 0 : i];
    }
    *a = all;
done:
    return st;
}

static enum clcnn_status infer_slice(struct infer *in, struct clcnn_err *err)
{
    struct slice_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;

    TRY(spread_slices(in, a, err));
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){0};
    for (int i = 0; i < x->rank; i++) {
        int32_t *start = &a->starts.v[i], *end = &a->ends.v[i], step = a->steps.v[i];
        int32_t given_start = *start, given_end = *end;
        if (step == 0)
            return value_fail(in, err, "steps: the step of dimension %d is 0", i);
        int64_t count = slice_count(x->dim[i], start, end, step);
        if (count == 0) {
            return shape_fail(in, err, "the slice %d:%d:%d of dimension %d of input %s is empty",
                              (int)given_start, (int)given_end, (int)step, i, SHAPE(x));
        }
        TRY(rule_push(in, &in->out[0], count, err));
    }
done:
    return st;
}

static enum clcnn_status infer_pad(struct infer *in, struct clcnn_err *err)
{
    const struct pad_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];

    if (a->pads.n != 2 * x->rank) {
        return value_fail(in, err, "pads=%s has %d values, expected %d (begins, then ends) for input %s",
                          INTS(&a->pads), (int)a->pads.n, 2 * x->rank, SHAPE(x));
    }
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){0};
    for (int i = 0; i < x->rank; i++) {
        int64_t begin = a->pads.v[i], end = a->pads.v[i + x->rank];
        int64_t kept = x->dim[i] + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
        if (kept < 1) {
            return shape_fail(in, err, "pads %lld and %lld leave nothing of dimension %d of input %s",
                              (long long)begin, (long long)end, i, SHAPE(x));
        }
        enum clcnn_status st = rule_push(in, &in->out[0], x->dim[i] + begin + end, err);
        if (st != CLCNN_OK)
            return st;
    }
    return CLCNN_OK;
}

/* A bound beyond the array means its end, however far beyond (ONNX writes INT64_MAX). */
#define BOUNDS(field_, doc_)                                                                   \
    {                                                                                          \
        .name = #field_, .doc = doc_, .kind = CLCNN_ATTR_INTS, .required = true, .def = EMPTY, \
        .clamps = true, .offset = offsetof(struct slice_attrs, field_)                         \
    }
static const struct clcnn_attr_info slice_table[] = {
    BOUNDS(starts, "first index for each of axes; negative ones count from the end"),
    BOUNDS(ends, "index after the last one for each of axes"),
    ATTR(INTS, slice_attrs, axes, EMPTY, "dimensions to slice; the first ones when empty"),
    ATTR(INTS, slice_attrs, steps, 1, "distance between elements; a negative one walks backwards"),
};
static const struct clcnn_attr_info pad_table[] = {
    ATTR_REQUIRED(INTS, pad_attrs, pads,
                  "elements added before every dimension, then after; a negative number crops"),
    ATTR(FLOAT, pad_attrs, value, 0.0, "what constant adds"),
    ATTR_ENUM(pad_attrs, mode, 0, "constant|reflect|edge|wrap|roll",
              "what is added: value; x mirrored at its outermost elements; those elements; x over again; the "
              "same of all of x, with what is cropped"),
};

const struct op_def op_slice = {
    .name = "slice",
    .doc = "x[start:end:step, ...] as NumPy slices it",
    .inputs = "x",
    ATTRS(slice_table, slice_attrs),
    .types = "Tflib > T",
    .infer = infer_slice,
};

const struct op_def op_pad = {
    .name = "pad",
    .doc = "x with elements around it",
    .inputs = "x",
    ATTRS(pad_table, pad_attrs),
    .types = "Tflib > T",
    .infer = infer_pad,
};
