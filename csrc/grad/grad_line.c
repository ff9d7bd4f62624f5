/* grad_line.c: operators that are linear along each dimension: resize, and padding by what is there. Their matrix is what they make of the
 * rows of an identity; dy goes back by a product with it. */
#include "grad/grad.h"

#define DY (g->dy[0])

/* [n, n]: an identity, as n channels of one dimension where `channels`. */
static int identity(struct grad *g, int32_t n, bool channels)
{
    int value;
    const struct clcnn_shape map = {.rank = 3, .dim = {1, n, n}}, matrix = {.rank = 2, .dim = {n, n}};
    float *ones = grad_constant(g, channels ? &map : &matrix, &value);

    for (int64_t i = 0; ones && i < n; i++)
        ones[i * n + i] = 1.0f;
    return value;
}

/* [in, out] of spatial dimension i: resizing each element of `in` by itself. */
static int resize_matrix(struct grad *g, const struct resize_attrs *a, int i, int dims, int32_t in,
                         int32_t out)
{
    struct resize_attrs one = *a;
    const struct clcnn_shape matrix = {.rank = 2, .dim = {in, out}};

    one.size = (struct ints){1, {out}};
    one.extrapolation_value = 0.0f;
    if (a->scales.n)
        one.scales = (struct floats){1, {a->scales.v[a->scales.n > 1 ? i : 0]}};
    if (a->roi.n)
        one.roi = (struct floats){2, {a->roi.v[i], a->roi.v[dims + i]}};
    const int rows = identity(g, in, true);
    return grad_reshape(g, grad_node(g, &op_resize, &one, &rows, 1), &matrix);
}

void grad_resize(struct grad *g)
{
    const struct resize_attrs *a = g->node.attrs;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), y = grad_shape(g, DY);
    const int dims = x.rank - 2;
    int dx = DY;

    if (!grad_wants(g, 0))
        return;
    for (int i = dims - 1; i >= 0; i--) {
        const int32_t in = x.dim[i + 2], out = y.dim[i + 2];
        dx = grad_along(g, dx, i + 2, resize_matrix(g, a, i, dims, in, out));
    }
    grad_give(g, 0, dx);
}

/* [in, out]: the padding of dimension i of `in` elements. */
static int pad_matrix(struct grad *g, const struct pad_attrs *a, int i, int rank, int32_t in)
{
    const struct pad_attrs one = {.pads = {4, {0, a->pads.v[i], 0, a->pads.v[i + rank]}}, .mode = a->mode};
    const int rows = identity(g, in, false);

    return grad_node(g, &op_pad, &one, &rows, 1);
}

void grad_pad_line(struct grad *g)
{
    const struct pad_attrs *a = g->node.attrs;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);
    int dx = DY;

    for (int i = x.rank - 1; i >= 0; i--) {
        if (a->pads.v[i] != 0 || a->pads.v[i + x.rank] != 0)
            dx = grad_along(g, dx, i, pad_matrix(g, a, i, x.rank, x.dim[i]));
    }
    grad_give(g, 0, dx);
}
