/* pool.c: pooling as torch.nn.functional defines it, with ONNX's padding that may differ at both ends. */
#include "ops/rules.h"

bool pool_side_by_side(const struct pool_attrs *a, const struct clcnn_shape *x, const struct clcnn_shape *y)
{
    for (int i = 0; i < a->padding.n; i++)
        if (a->padding.v[i])
            return false;
    for (int i = 0; i < x->rank - 2; i++) {
        const int32_t size = a->kernel_size.v[i];
        if (a->stride.v[i] != size || y->dim[2 + i] > x->dim[2 + i] / size)
            return false;
    }
    return true;
}

/* Number of windows. With ceil_mode a partial last one counts if it starts inside the input or the padding
 * before it. */
static int64_t window_count(int64_t size, int64_t extent, int32_t stride, int32_t begin, int32_t end,
                            bool ceil_mode)
{
    int64_t span = size + begin + end - extent;
    int64_t count = floor_div(span + (ceil_mode ? stride - 1 : 0), stride) + 1;

    if (ceil_mode && (count - 1) * stride >= size + begin)
        count--;
    return count;
}

static enum clcnn_status push_pooled(const struct infer *in, const struct pool_attrs *a,
                                     const struct clcnn_shape *x, int i, struct clcnn_err *err,
                                     struct clcnn_shape *out)
{
    int n = x->rank - 2;
    int32_t size = x->dim[i + 2], begin = a->padding.v[i], end = a->padding.v[i + n];
    int64_t extent = window_extent(a->kernel_size.v[i], a->dilation.v[i]);
    int64_t room = (int64_t)size + begin + end;

    if (room > INT32_MAX || extent > INT32_MAX) {
        return shape_fail(in, err,
                          "a window of %lld on a padded input of %lld in dimension %d exceeds 2^31 - 1",
                          (long long)extent, (long long)room, i + 2);
    }
    if (begin >= extent || end >= extent) {
        return value_fail(
            in, err,
            "padding %d + %d must be smaller than the window of %lld (kernel_size=%d, dilation=%d), or "
            "windows would lie outside the input",
            (int)begin, (int)end, (long long)extent, (int)a->kernel_size.v[i], (int)a->dilation.v[i]);
    }
    int64_t count = window_count(size, extent, a->stride.v[i], begin, end, a->ceil_mode);
    if (count < 1) {
        return shape_fail(in, err,
                          "kernel_size=%d with dilation=%d spans %lld, more than the padded input of %lld "
                          "(%d + %d + %d) in "
                          "dimension %d",
                          (int)a->kernel_size.v[i], (int)a->dilation.v[i], (long long)extent, (long long)room,
                          (int)size, (int)begin, (int)end, i + 2);
    }
    return rule_push(in, out, count, err);
}

enum clcnn_status rule_pool(const struct infer *in, struct pool_attrs *a, const struct clcnn_shape *x,
                            struct clcnn_shape *out, struct clcnn_err *err)
{
    enum clcnn_status st;
    int n = x->rank - 2;

    TRY(rule_spatial(in, x, err));
    TRY(rule_spread(in, "kernel_size", &a->kernel_size, n, 1, err));
    if (a->stride.n == 0)
        a->stride = a->kernel_size;
    TRY(rule_spread(in, "stride", &a->stride, n, 1, err));
    TRY(rule_spread(in, "dilation", &a->dilation, n, 1, err));
    TRY(rule_padding(in, &a->padding, n, err));
    *out = (struct clcnn_shape){.rank = 2, .dim = {x->dim[0], x->dim[1]}};
    for (int i = 0; i < n; i++)
        TRY(push_pooled(in, a, x, i, err, out));
done:
    return st;
}

static enum clcnn_status infer_pool(struct infer *in, struct clcnn_err *err)
{
    in->n_out = 1;
    return rule_pool(in, in->attrs, &in->in[0], &in->out[0], err);
}

static enum clcnn_status infer_adaptive(struct infer *in, struct clcnn_err *err)
{
    struct adaptive_attrs *a = in->attrs;
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;
    int n = x->rank - 2;

    TRY(rule_spatial(in, x, err));
    TRY(rule_spread(in, "output_size", &a->output_size, n, 1, err));
    in->n_out = 1;
    in->out[0] = (struct clcnn_shape){.rank = 2, .dim = {x->dim[0], x->dim[1]}};
    for (int i = 0; i < n; i++)
        TRY(rule_push(in, &in->out[0], a->output_size.v[i], err));
done:
    return st;
}

static enum clcnn_status infer_lp_pool(struct infer *in, struct clcnn_err *err)
{
    struct lp_pool_attrs *a = in->attrs;

    if (a->p < 1)
        return value_fail(in, err, "p=%d must be at least 1", (int)a->p);
    in->n_out = 1;
    return rule_pool(in, &a->pool, &in->in[0], &in->out[0], err);
}

static enum clcnn_status infer_max_indices(struct infer *in, struct clcnn_err *err)
{
    struct max_indices_attrs *a = in->attrs;
    enum clcnn_status st = rule_pool(in, &a->pool, &in->in[0], &in->out[0], err);

    if (a->storage_order != 0 && a->storage_order != 1)
        return value_fail(in, err, "storage_order=%d must be 0 (rows) or 1 (columns)", (int)a->storage_order);
    in->n_out = 2;
    in->out[1] = in->out[0];
    return st;
}

static enum clcnn_status infer_max_pool_grad(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *dy = &in->in[1];
    struct clcnn_shape y;
    struct max_pool_grad_attrs *a = in->attrs;
    enum clcnn_status st = rule_pool(in, &a->pool, x, &y, err);

    if (st == CLCNN_OK && !shape_equal(dy, &y))
        return shape_fail(in, err, "dy has shape %s, but the pooling of %s gives %s", SHAPE(dy), SHAPE(x),
                          SHAPE(&y));
    in->n_out = 1;
    in->out[0] = *x;
    return st;
}

static enum clcnn_status infer_unpool(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *indices = &in->in[1];

    if (!shape_equal(x, indices))
        return shape_fail(in, err, "indices have shape %s, expected that of input %s", SHAPE(indices),
                          SHAPE(x));
    return infer_adaptive(in, err);
}

#define POOL_ATTRS                                                                                      \
    ATTR_REQUIRED(INTS, pool_attrs, kernel_size,                                                        \
                  "size of the window, for all or for each spatial dimension"),                         \
        ATTR(INTS, pool_attrs, stride, EMPTY, "step of the window; kernel_size when empty"),            \
        ATTR(INTS, pool_attrs, padding, 0,                                                              \
             "around the input: one number, one a spatial dimension, or all begins and then all ends"), \
        ATTR(INTS, pool_attrs, dilation, 1, "distance between the elements of a window"),               \
        ATTR(BOOL, pool_attrs, ceil_mode, 0, "keep a partial window at the end")

static const struct clcnn_attr_info max_pool_table[] = {POOL_ATTRS};
static const struct clcnn_attr_info avg_pool_table[] = {
    POOL_ATTRS,
    ATTR(BOOL, pool_attrs, count_include_pad, 1, "count padding as elements of the mean"),
};
/* Their first member is a pool_attrs, whose offsets are therefore theirs. */
static const struct clcnn_attr_info lp_pool_table[] = {
    POOL_ATTRS,
    ATTR(INT, lp_pool_attrs, p, 2, "which norm"),
};
static const struct clcnn_attr_info max_pool_grad_table[] = {
    POOL_ATTRS,
    ATTR(BOOL, max_pool_grad_attrs, rectified, 0,
         "x is what relu gives, and its gradient is part of the result: 0 where a maximum is not positive"),
};
static const struct clcnn_attr_info max_indices_table[] = {
    POOL_ATTRS,
    ATTR(INT, max_indices_attrs, storage_order, 0,
         "1: indices count the spatial dimensions in column-major order"),
};
static const struct clcnn_attr_info unpool_table[] = {
    ATTR_REQUIRED(INTS, adaptive_attrs, output_size, "spatial size of the output, which indices refer to"),
};
static const struct clcnn_attr_info adaptive_table[] = {
    ATTR_REQUIRED(INTS, adaptive_attrs, output_size,
                  "size of the output, for all or for each spatial dimension"),
};

const struct op_def op_max_pool = {
    .name = "max_pool",
    .doc = "maximum of each window of x[N,C,*spatial]; padding never wins, NaN always does",
    .inputs = "x",
    ATTRS(max_pool_table, pool_attrs),
    .infer = infer_pool,
    .by_item = true,
};

const struct op_def op_max_pool_grad = {
    .name = "max_pool_grad",
    .doc = "gradient of max_pool's x from the gradient dy of its result: each window's goes to its first "
           "maximum",
    .inputs = "x dy",
    ATTRS(max_pool_grad_table, max_pool_grad_attrs),
    .infer = infer_max_pool_grad,
    .by_item = true,
};

const struct op_def op_avg_pool = {
    .name = "avg_pool",
    .doc = "mean of each window of x[N,C,*spatial]",
    .inputs = "x",
    ATTRS(avg_pool_table, pool_attrs),
    .infer = infer_pool,
    .by_item = true,
};

const struct op_def op_adaptive_avg_pool = {
    .name = "adaptive_avg_pool",
    .doc = "mean of x[N,C,*spatial] over bins from floor(i * in / out) to ceil((i + 1) * in / out)",
    .inputs = "x",
    ATTRS(adaptive_table, adaptive_attrs),
    .infer = infer_adaptive,
    .by_item = true,
};

const struct op_def op_adaptive_max_pool = {
    .name = "adaptive_max_pool",
    .doc = "maximum of x[N,C,*spatial] over bins from floor(i * in / out) to ceil((i + 1) * in / out)",
    .inputs = "x",
    ATTRS(adaptive_table, adaptive_attrs),
    .infer = infer_adaptive,
    .by_item = true,
};

const struct op_def op_lp_pool = {
    .name = "lp_pool",
    .doc = "p-norm of each window of x[N,C,*spatial]: the p-th root of the sum of |x| to the power of p",
    .inputs = "x",
    ATTRS(lp_pool_table, lp_pool_attrs),
    .infer = infer_lp_pool,
    .by_item = true,
};

const struct op_def op_max_pool_indices = {
    .name = "max_pool_indices",
    .doc = "max_pool, and where in all of x each maximum was found (the first one of equals)",
    .inputs = "x",
    ATTRS(max_indices_table, max_indices_attrs),
    .types = "f > f l",
    .infer = infer_max_indices,
};

const struct op_def op_max_unpool = {
    .name = "max_unpool",
    .doc =
        "zeros, with x[N,C,*spatial] at the places that indices give in the whole output; others are dropped",
    .inputs = "x indices",
    ATTRS(unpool_table, adaptive_attrs),
    .types = "f li > f",
    .infer = infer_unpool,
};
