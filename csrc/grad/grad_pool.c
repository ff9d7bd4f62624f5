/* grad_pool.c: pooling. Means of windows are depthwise convolutions, so that theirs is a transposed one. */
#include <string.h>

#include "grad/grad.h"

/* ---- maxima ------------------------------------------------------------------------------------------------- */

static void give_max(struct grad *g, const struct pool_attrs *a)
{
    const struct max_pool_grad_attrs of = {.pool = *a};

    if (grad_wants(g, 0) && g->dy[0] >= 0)
        grad_give(g, 0, grad_node(g, &op_max_pool_grad, &of, (const int[]){g->node.in[0], g->dy[0]}, 2));
}

void grad_max_pool(struct grad *g)
{
    give_max(g, g->node.attrs); /* of max_pool_indices: its first member */
}

/* Bins of equal size are windows side by side; false where they are not. */
static bool bins_as_windows(const struct clcnn_shape *x, const struct clcnn_shape *y, struct pool_attrs *a)
{
    const int n = x->rank - 2;

    *a = (struct pool_attrs){.kernel_size = {.n = n}, .padding = {.n = 2 * n}, .dilation = {.n = n}};
    for (int i = 0; i < n; i++) {
        if (x->dim[i + 2] % y->dim[i + 2])
            return false;
        a->kernel_size.v[i] = x->dim[i + 2] / y->dim[i + 2];
        a->dilation.v[i] = 1;
    }
    a->stride = a->kernel_size;
    return true;
}

void grad_adaptive_max_pool(struct grad *g)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), y = grad_shape(g, g->dy[0]);
    struct pool_attrs a;

    if (bins_as_windows(&x, &y, &a))
        give_max(g, &a);
    else
        grad_unsupported(g, "where bins differ in size");
}

/* ---- means -------------------------------------------------------------------------------------------------- */

/* How many elements each window's mean divides by, in dimension i of them: counts[o]. */
static void count_taps(const struct pool_attrs *a, int i, int n, int32_t in, int32_t out, float *counts)
{
    const int32_t low = a->count_include_pad ? -a->padding.v[i] : 0;
    const int32_t high = in + (a->count_include_pad ? a->padding.v[i + n] : 0);

    for (int32_t o = 0; o < out; o++) {
        counts[o] = 0.0f;
        for (int32_t t = 0; t < a->kernel_size.v[i]; t++) {
            const int64_t at = (int64_t)o * a->stride.v[i] - a->padding.v[i] + (int64_t)t * a->dilation.v[i];
            counts[o] += at >= low && at < high;
        }
    }
}

/* dy by the number of elements of each window, dimension by dimension where they are not all the same. */
static int divided(struct grad *g, int dy, const struct pool_attrs *a, const struct clcnn_shape *x)
{
    const struct clcnn_shape y = grad_shape(g, dy);
    const int n = y.rank - 2;
    double factor = 1.0;

    for (int i = 0; i < n; i++) {
        struct clcnn_shape one = {.rank = n - i, .dim = {y.dim[i + 2], 1, 1}};
        bool same = true;
        int counts;
        float *count = grad_constant(g, &one, &counts);
        if (!count)
            return -1;
        count_taps(a, i, n, x->dim[i + 2], y.dim[i + 2], count);
        for (int32_t o = 1; o < y.dim[i + 2]; o++)
            same &= count[o] == count[0];
        if (same)
            factor /= count[0];
        else
            dy = grad_div(g, dy, counts);
    }
    return grad_scale(g, dy, factor);
}

/* Each element of dy added to all elements of its window, in a map of the shape x. */
static int spread(struct grad *g, int dy, const struct pool_attrs *a, const struct clcnn_shape *x)
{
    const struct clcnn_shape y = grad_shape(g, dy);
    const int n = x->rank - 2;
    struct conv_attrs c = {
        .stride = a->stride, .padding = a->padding, .dilation = a->dilation, .groups = x->dim[1]};
    struct clcnn_shape taps = {.rank = x->rank, .dim = {x->dim[1], 1}};
    int ones;

    c.output_padding = (struct ints){.n = n};
    for (int i = 0; i < n; i++) {
        const int32_t extent = a->dilation.v[i] * (a->kernel_size.v[i] - 1) + 1;
        const int32_t over = (y.dim[i + 2] - 1) * a->stride.v[i] + extent - a->padding.v[i] - x->dim[i + 2];
        taps.dim[i + 2] = a->kernel_size.v[i];
        c.padding.v[i + n] = over > 0 ? over : 0; /* ceil_mode: windows that hang over */
        c.output_padding.v[i] = over < 0 ? -over : 0;
    }
    float *one = grad_constant(g, &taps, &ones);
    for (int64_t i = 0; one && i < shape_count(&taps); i++)
        one[i] = 1.0f;
    return grad_node(g, &op_conv_transpose, &c, (const int[]){dy, ones, -1}, 3);
}

void grad_avg_pool(struct grad *g)
{
    const struct pool_attrs *a = g->node.attrs;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);

    if (grad_wants(g, 0))
        grad_give(g, 0, spread(g, divided(g, g->dy[0], a, &x), a, &x));
}

/* Shares of the bins of one dimension, of any size: [in, out]. */
static int shares_of(struct grad *g, int32_t in, int32_t out)
{
    int shares;
    float *share = grad_constant(g, &(struct clcnn_shape){.rank = 2, .dim = {in, out}}, &shares);

    for (int64_t o = 0; share && o < out; o++) {
        const int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
        for (int64_t i = first; i < end; i++)
            share[i * out + o] = 1.0f / (float)(end - first);
    }
    return shares;
}

void grad_adaptive_avg_pool(struct grad *g)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), y = grad_shape(g, g->dy[0]);
    int dx = g->dy[0];

    if (!grad_wants(g, 0))
        return;
    if (shape_count_from(&y, 2) == 1)
        dx = grad_expand(g, grad_scale(g, dx, 1.0 / (double)shape_count_from(&x, 2)), &x);
    for (int i = x.rank - 1; i > 1 && shape_count_from(&y, 2) > 1; i--)
        dx = x.dim[i] == y.dim[i] ? dx : grad_along(g, dx, i, shares_of(g, x.dim[i], y.dim[i]));
    grad_give(g, 0, dx);
}

/* ---- p-norms ------------------------------------------------------------------------------------------------ */

/* x^(p - 1) with the sign of x. */
static int power(struct grad *g, int x, int32_t p)
{
    const int sign = grad_of(g, &op_sign, x);

    if (p == 1)
        return sign;
    if (p == 2)
        return x;
    const int size = grad_of_two(g, &op_pow, grad_of(g, &op_abs, x), grad_number(g, p - 1));
    return grad_mul(g, size, sign);
}

/* y^(1 - p) * dy goes to the window; nothing where all of it is 0. */
void grad_lp_pool(struct grad *g)
{
    const struct lp_pool_attrs *a = g->node.attrs;
    const int x = g->node.in[0], y = g->node.out[0];
    const struct clcnn_shape shape = grad_shape(g, x);

    if (!grad_wants(g, 0))
        return;
    const int factor = grad_of_two(g, &op_pow, y, grad_number(g, 1 - a->p));
    const int dy = grad_masked(g, grad_mul(g, g->dy[0], factor), y);
    grad_give(g, 0, grad_mul(g, spread(g, dy, &a->pool, &shape), power(g, x, a->p)));
}

/* ---- places of maxima ---------------------------------------------------------------------------------------- */

/* Of x, the elements at `indices` in all of it. */
static int taken(struct grad *g, int x, int indices)
{
    const struct clcnn_shape sx = grad_shape(g, x), si = grad_shape(g, indices);
    const int flat[] = {
        grad_reshape(g, x, &(struct clcnn_shape){.rank = 1, .dim = {(int32_t)shape_count(&sx)}}),
        grad_reshape(
            g, indices,
            &(struct clcnn_shape){.rank = 1, .dim = {(int32_t)shape_count(&si)}, .dtype = si.dtype})};

    return grad_reshape(g, grad_node(g, &op_gather_elements, &(struct dim_attrs){0}, flat, 2), &si);
}

void grad_max_unpool(struct grad *g)
{
    if (grad_wants(g, 0))
        grad_give(g, 0, taken(g, g->dy[0], g->node.in[1]));
}

/* Linear in dy, whose elements come back from where they went; it does not change with x but at ties. */
void grad_max_pool_grad(struct grad *g)
{
    const struct max_pool_grad_attrs *of = g->node.attrs;
    const struct max_indices_attrs a = {.pool = of->pool};
    int out[MAX_OUTPUTS];

    if (!grad_wants(g, 1))
        return;
    grad_outputs(g, &op_max_pool_indices, &a, g->node.in, 1, out);
    if (out[0] < 0)
        return;
    const int all = taken(g, g->dy[0], out[1]);
    grad_give(g, 1, of->rectified ? grad_of_two(g, &op_relu_grad, all, out[0]) : all);
}
