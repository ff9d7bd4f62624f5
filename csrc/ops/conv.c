/* conv.c: convolution and transposed convolution as torch.nn.functional.conv{1,2,3}d and
 * conv_transpose{1,2,3}d define them, with padding that may differ at both ends as ONNX adds it. */
#include "ops/rules.h"

/* What conv and conv_transpose have in common: ranks, groups, and lists brought to one entry a spatial
 * dimension. */
static enum clcnn_status check_common(const struct infer *in, struct conv_attrs *a,
                                      const struct clcnn_shape *x, const struct clcnn_shape *w,
                                      struct clcnn_err *err)
{
    enum clcnn_status st;
    int n = x->rank - 2;

    TRY(rule_spatial(in, x, err));
    if (w->rank != x->rank) {
        return shape_fail(in, err, "weights %s have %d dimensions, input %s has %d", SHAPE(w), (int)w->rank,
                          SHAPE(x), (int)x->rank);
    }
    if (a->groups < 1)
        return value_fail(in, err, "groups=%d must be at least 1", (int)a->groups);
    TRY(rule_spread(in, "stride", &a->stride, n, 1, err));
    TRY(rule_spread(in, "dilation", &a->dilation, n, 1, err));
    TRY(rule_padding(in, &a->padding, n, err));
done:
    return st;
}

enum clcnn_status rule_windows(const struct infer *in, const struct conv_attrs *a,
                               const struct clcnn_shape *x, int spatial, const struct clcnn_shape *w,
                               struct clcnn_shape *out, struct clcnn_err *err)
{
    int n = x->rank - 2;

    for (int i = 0; i < n; i++) {
        int32_t size = x->dim[i + spatial], kernel = w->dim[i + 2];
        int64_t extent = window_extent(kernel, a->dilation.v[i]);
        int64_t room = (int64_t)size + a->padding.v[i] + a->padding.v[i + n];
        if (room > INT32_MAX)
            return shape_fail(in, err, "the padded input would be %lld in dimension %d", (long long)room,
                              i + spatial);
        if (extent > room) {
            return shape_fail(
                in, err,
                "kernel %d with dilation %d spans %lld, more than the padded input of %lld (%d + %d + %d) in "
                "dimension %d",
                (int)kernel, (int)a->dilation.v[i], (long long)extent, (long long)room, (int)size,
                (int)a->padding.v[i], (int)a->padding.v[i + n], i + spatial);
        }
        enum clcnn_status st = rule_push(in, out, (room - extent) / a->stride.v[i] + 1, err);
        if (st != CLCNN_OK)
            return st;
    }
    return CLCNN_OK;
}

enum clcnn_status rule_conv(const struct infer *in, struct conv_attrs *a, const struct clcnn_shape *x,
                            const struct clcnn_shape *w, struct clcnn_shape *out, struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(check_common(in, a, x, w, err));
    if (x->dim[1] != (int64_t)w->dim[1] * a->groups) {
        return shape_fail(in, err, "input has %d channels but weights %s with groups=%d expect %lld",
                          (int)x->dim[1], SHAPE(w), (int)a->groups, (long long)w->dim[1] * a->groups);
    }
    if (w->dim[0] % a->groups) {
        return shape_fail(in, err, "groups=%d does not divide the %d output channels of weights %s",
                          (int)a->groups, (int)w->dim[0], SHAPE(w));
    }
    a->output_padding = (struct ints){.n = x->rank - 2};
    *out = (struct clcnn_shape){.rank = 2, .dim = {x->dim[0], w->dim[0]}};
    TRY(rule_windows(in, a, x, 2, w, out, err));
done:
    return st;
}

bool conv_of_transposed(struct conv_attrs *to, const struct conv_attrs *from, const struct clcnn_shape *w)
{
    const int dims = from->stride.n;
    bool whole = true;
    *to = *from;
    for (int i = 0; i < 2 * dims; i++) {
        const int d = i % dims, extra = i < dims ? 0 : from->output_padding.v[d];
        const int64_t reach = window_extent((int32_t)w->dim[d + 2], from->dilation.v[d]) - 1,
                      padding = reach - from->padding.v[i] + extra;
        whole = whole && from->stride.v[d] == 1 && padding >= 0 && padding <= INT32_MAX;
        to->padding.v[i] = (int32_t)padding;
    }
    to->output_padding = (struct ints){.n = dims};
    return whole;
}

double conv_macs_of(const struct clcnn_shape *w, const struct clcnn_shape *out)
{
    return (double)shape_count(out) * (double)shape_count_from(w, 1);
}

static enum clcnn_status infer_conv(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(rule_conv(in, in->attrs, &in->in[0], &in->in[1], &in->out[0], err));
    TRY(rule_vector(in, 2, "bias", in->in[1].dim[0], err));
    in->n_out = 1;
done:
    return st;
}

static double macs_conv(const struct infer *in)
{
    return conv_macs_of(&in->in[1], &in->out[0]);
}

/* ---- transposed ---------------------------------------------------------------------------------------- */

static enum clcnn_status push_spread(const struct infer *in, const struct conv_attrs *a,
                                     const struct clcnn_shape *x, const struct clcnn_shape *w,
                                     struct clcnn_shape *out, struct clcnn_err *err)
{
    int n = x->rank - 2;

    for (int i = 0; i < n; i++) {
        int32_t stride = a->stride.v[i], dilation = a->dilation.v[i], extra = a->output_padding.v[i];
        int64_t extent = window_extent(w->dim[i + 2], dilation);
        int64_t full = (int64_t)(x->dim[i + 2] - 1) * stride + extent + extra;
        int64_t cropped = (int64_t)a->padding.v[i] + a->padding.v[i + n];
        if (extra >= stride && extra >= dilation) {
            return value_fail(in, err, "output_padding=%d must be smaller than stride=%d or dilation=%d",
                              (int)extra, (int)stride, (int)dilation);
        }
        if (full > INT32_MAX)
            return shape_fail(in, err, "the output before padding is removed would be %lld", (long long)full);
        if (full <= cropped) {
            return shape_fail(in, err, "padding %d + %d leaves nothing of %lld outputs in dimension %d",
                              (int)a->padding.v[i], (int)a->padding.v[i + n], (long long)full, i + 2);
        }
        enum clcnn_status st = rule_push(in, out, full - cropped, err);
        if (st != CLCNN_OK)
            return st;
    }
    return CLCNN_OK;
}

static enum clcnn_status infer_conv_transpose(struct infer *in, struct clcnn_err *err)
{
    struct conv_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *w = &in->in[1];
    enum clcnn_status st;

    TRY(check_common(in, a, x, w, err));
    TRY(rule_spread(in, "output_padding", &a->output_padding, x->rank - 2, 0, err));
    if (x->dim[1] != w->dim[0]) {
        return shape_fail(in, err, "input has %d channels but weights %s expect %d", (int)x->dim[1], SHAPE(w),
                          (int)w->dim[0]);
    }
    if (x->dim[1] % a->groups) {
        return shape_fail(in, err, "groups=%d does not divide the %d input channels", (int)a->groups,
                          (int)x->dim[1]);
    }
    int64_t channels = (int64_t)w->dim[1] * a->groups;
    in->out[0] = (struct clcnn_shape){.rank = 1, .dim = {x->dim[0]}};
    TRY(rule_push(in, &in->out[0], channels, err));
    TRY(rule_vector(in, 2, "bias", channels, err));
    TRY(push_spread(in, a, x, w, &in->out[0], err));
    in->n_out = 1;
done:
    return st;
}

static double macs_conv_transpose(const struct infer *in)
{
    return (double)shape_count(&in->in[0]) * (double)shape_count_from(&in->in[1], 1);
}

/* ---- the gradient of filters ---------------------------------------------------------------------------- */

/* dy is a result of the convolution, or the beginning of one: the gradient of conv_transpose's filters, whose output padding
 * may make room for more windows. */
static enum clcnn_status infer_filter_grad(struct infer *in, struct clcnn_err *err)
{
    struct filter_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *dy = &in->in[1];
    struct clcnn_shape *w = &in->out[0], whole;
    enum clcnn_status st;

    TRY(rule_spatial(in, x, err));
    TRY(rule_spread(in, "kernel_size", &a->kernel_size, x->rank - 2, 1, err));
    if (dy->rank != x->rank || dy->dim[0] != x->dim[0])
        return shape_fail(in, err, "dy %s is no result of a convolution of %s", SHAPE(dy), SHAPE(x));
    if (a->conv.groups < 1 || x->dim[1] % a->conv.groups) {
        return value_fail(in, err, "groups=%d does not divide the %d input channels", (int)a->conv.groups,
                          (int)x->dim[1]);
    }
    *w = (struct clcnn_shape){.rank = 2, .dim = {dy->dim[1], x->dim[1] / a->conv.groups}};
    for (int i = 0; i < x->rank - 2; i++)
        TRY(rule_push(in, w, a->kernel_size.v[i], err));
    TRY(rule_conv(in, &a->conv, x, w, &whole, err));
    for (int i = 2; i < x->rank; i++) {
        if (dy->dim[i] > whole.dim[i])
            return shape_fail(in, err, "dy has shape %s, but the convolution of %s gives %s", SHAPE(dy),
                              SHAPE(x), SHAPE(&whole));
    }
    in->n_out = 1;
done:
    return st;
}

static double macs_filter_grad(const struct infer *in)
{
    return conv_macs_of(&in->out[0], &in->in[1]);
}

/* ---- deformable ---------------------------------------------------------------------------------------- */

/* An input [N, channels, output height, output width]. */
static enum clcnn_status check_map(const struct infer *in, int i, const char *name, int64_t channels,
                                   struct clcnn_err *err)
{
    const struct clcnn_shape *m = &in->in[i], *out = &in->out[0];

    if (m->rank == 4 && m->dim[0] == out->dim[0] && m->dim[1] == channels && m->dim[2] == out->dim[2] &&
        m->dim[3] == out->dim[3])
        return CLCNN_OK;
    return shape_fail(in, err, "%s has shape %s, expected [%d, %lld, %d, %d]", name, SHAPE(m),
                      (int)out->dim[0], (long long)channels, (int)out->dim[2], (int)out->dim[3]);
}

static enum clcnn_status infer_deform(struct infer *in, struct clcnn_err *err)
{
    struct deform_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0], *w = &in->in[1];
    enum clcnn_status st;

    if (x->rank != 4)
        return shape_fail(in, err, "input %s must be [N, C, height, width]", SHAPE(x));
    TRY(rule_conv(in, &a->conv, x, w, &in->out[0], err));
    if (a->offset_groups < 1 || x->dim[1] % a->offset_groups) {
        return value_fail(in, err, "offset_groups=%d does not divide the %d input channels",
                          (int)a->offset_groups, (int)x->dim[1]);
    }
    const int64_t taps = (int64_t)a->offset_groups * w->dim[2] * w->dim[3];
    TRY(check_map(in, 2, "offset", 2 * taps, err));
    TRY(rule_vector(in, 3, "bias", w->dim[0], err));
    if (input_present(in, 4))
        TRY(check_map(in, 4, "mask", taps, err));
    in->n_out = 1;
done:
    return st;
}

/* ---- tables -------------------------------------------------------------------------------------------- */

#define COMMON_ATTRS                                                                                         \
    ATTR(INTS, conv_attrs, stride, 1, "step of the window, for all or for each spatial dimension"),          \
        ATTR(                                                                                                \
            INTS, conv_attrs, padding, 0,                                                                    \
            "zeros around the input: one number, one a spatial dimension, or all begins and then all ends"), \
        ATTR(INTS, conv_attrs, dilation, 1, "distance between the taps of the kernel")
#define GROUPS_ATTR ATTR(INT, conv_attrs, groups, 1, "parts into which input and output channels are split")

static const struct clcnn_attr_info conv_table[] = {COMMON_ATTRS, GROUPS_ATTR};
static const struct clcnn_attr_info conv_transpose_table[] = {
    COMMON_ATTRS,
    ATTR(INTS, conv_attrs, output_padding, 0,
         "added to one side of the output's size, to choose among sizes that a "
         "strided convolution maps to the same one"),
    GROUPS_ATTR,
};

/* The first member of these is a conv_attrs, whose offsets are therefore theirs. */
static const struct clcnn_attr_info filter_grad_table[] = {
    ATTR_REQUIRED(INTS, filter_attrs, kernel_size,
                  "size of the filters, for all or for each spatial dimension"),
    COMMON_ATTRS,
    GROUPS_ATTR,
};
static const struct clcnn_attr_info deform_table[] = {
    COMMON_ATTRS,
    GROUPS_ATTR,
    ATTR(INT, deform_attrs, offset_groups, 1, "parts of the input channels with offsets of their own"),
};

const struct op_def op_conv = {
    .name = "conv",
    .doc = "cross-correlation of x[N,C,*spatial] with w[K,C/groups,*kernel], plus b[K]; 1 to 3 spatial "
           "dimensions",
    .inputs = "x w b?",
    ATTRS(conv_table, conv_attrs),
    .infer = infer_conv,
    .macs = macs_conv,
    .fuses = true,
    .by_item = true,
};

const struct op_def op_conv_transpose = {
    .name = "conv_transpose",
    .doc = "adjoint of conv in x[N,C,*spatial], with w[C,K/groups,*kernel], plus b[K]; 1 to 3 spatial "
           "dimensions",
    .inputs = "x w b?",
    ATTRS(conv_transpose_table, conv_attrs),
    .infer = infer_conv_transpose,
    .macs = macs_conv_transpose,
    .fuses = true,
    .by_item = true,
};

const struct op_def op_conv_filter_grad = {
    .name = "conv_filter_grad",
    .doc = "gradient of conv's weights w[K,C/groups,*kernel] from x[N,C,*spatial] and the gradient "
           "dy[N,K,*out] of "
           "its result",
    .inputs = "x dy",
    ATTRS(filter_grad_table, filter_attrs),
    .infer = infer_filter_grad,
    .macs = macs_filter_grad,
};

const struct op_def op_deform_conv = {
    .name = "deform_conv",
    .doc = "conv in two dimensions, each tap moved by offset[N,offset_groups*kernel*2,*out] (y, x) and "
           "scaled by mask",
    .inputs = "x w offset b? mask?",
    ATTRS(deform_table, deform_attrs),
    .infer = infer_deform,
    .macs = macs_conv,
};
