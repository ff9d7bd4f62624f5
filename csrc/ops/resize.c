/* resize.c: resampling of the spatial dimensions, as ONNX Resize and torch.nn.functional.interpolate define
 * it. */
#include "ops/rules.h"

static enum clcnn_status spread_scales(const struct infer *in, struct floats *scales, int n,
                                       struct clcnn_err *err)
{
    if (scales->n == 0)
        return CLCNN_OK;
    if (scales->n != 1 && scales->n != n)
        return value_fail(in, err, "scales has %d values, expected 1 or %d", (int)scales->n, n);
    for (int i = 0; i < scales->n; i++) {
        if (!(scales->v[i] > 0.0f) || isinf(scales->v[i]))
            return value_fail(in, err, "scales: %g must be positive and finite", (double)scales->v[i]);
    }
    for (; scales->n < n; scales->n++)
        scales->v[scales->n] = scales->v[0];
    return CLCNN_OK;
}

/* floor(size * scale) in float32, as ONNX Runtime rounds it: 10 * 0.7f is 7 there, and 6.99.. in double. */
static enum clcnn_status size_from_scales(const struct infer *in, struct resize_attrs *a, int n,
                                          struct clcnn_err *err)
{
    for (int i = 0; i < n; i++) {
        int32_t size = in->in[0].dim[i + 2];
        float scaled = floorf((float)size * a->scales.v[i]);
        if (scaled < 1.0f || scaled >= 0x1p31f) {
            return shape_fail(in, err, "scale %g makes dimension %d of size %d %g, it must be 1 to 2^31 - 1",
                              (double)a->scales.v[i], i + 2, (int)size, (double)scaled);
        }
        a->size.v[a->size.n++] = (int32_t)scaled;
    }
    return CLCNN_OK;
}

static enum clcnn_status infer_resize(struct infer *in, struct clcnn_err *err)
{
    struct resize_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;
    int n = x->rank - 2;

    TRY(rule_spatial(in, x, err));
    if (a->size.n == 0 && a->scales.n == 0)
        return value_fail(in, err, "size or scales must be given");
    TRY(spread_scales(in, &a->scales, n, err));
    if (a->size.n == 0)
        TRY(size_from_scales(in, a, n, err));
    TRY(rule_spread(in, "size", &a->size, n, 1, err));
    if (a->coordinates == RESIZE_TF_CROP_AND_RESIZE && a->roi.n != 2 * n) {
        return value_fail(in, err, "roi has %d values, tf_crop_and_resize needs %d (starts, then ends)",
                          (int)a->roi.n, 2 * n);
    }
    for (int i = 0; i < a->roi.n; i++) {
        if (!isfinite(a->roi.v[i]))
            return value_fail(in, err, "roi: %g is not finite", (double)a->roi.v[i]);
    }
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){.rank = 2, .dim = {x->dim[0], x->dim[1]}};
    for (int i = 0; i < n; i++)
        TRY(rule_push(in, &in->out[0], a->size.v[i], err));
done:
    return st;
}

static const struct clcnn_attr_info table[] = {
    ATTR(INTS, resize_attrs, size, EMPTY, "spatial size of the output; from scales when empty"),
    ATTR(FLOATS, resize_attrs, scales, EMPTY,
         "output over input for each spatial dimension; used for coordinates when given, else the ratio of "
         "sizes"),
    ATTR_ENUM(resize_attrs, mode, 0, "nearest|linear|cubic",
              "one element, or a blend of the two or four around in each dimension"),
    ATTR_ENUM(
        resize_attrs, coordinates, 0,
        "half_pixel|asymmetric|align_corners|pytorch_half_pixel|half_pixel_symmetric|tf_crop_and_resize",
        "where output elements lie on the input"),
    ATTR_ENUM(resize_attrs, nearest_rounding, 0, "floor|round_prefer_floor|round_prefer_ceil|ceil",
              "nearest: how a coordinate becomes an index"),
    ATTR(FLOAT, resize_attrs, cubic_coeff_a, -0.75, "cubic: the slope of the kernel at 1"),
    ATTR(BOOL, resize_attrs, exclude_outside, 0,
         "leave elements outside of the input out of a blend, instead of repeating its edge"),
    ATTR(BOOL, resize_attrs, antialias, 0, "stretch linear and cubic kernels where the output is smaller"),
    ATTR(FLOAT, resize_attrs, extrapolation_value, 0.0, "tf_crop_and_resize: what lies outside of the input"),
    ATTR(FLOATS, resize_attrs, roi, EMPTY,
         "tf_crop_and_resize: starts and then ends of the spatial dimensions, 0 to 1 over the input"),
};

const struct op_def op_resize = {
    .name = "resize",
    .doc = "x[N,C,*spatial] resampled to another spatial size",
    .inputs = "x",
    ATTRS(table, resize_attrs),
    .infer = infer_resize,
};
