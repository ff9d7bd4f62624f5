/* grad_conv.c: convolutions. conv, conv_transpose on the same weights, and conv_filter_grad are the gradients of each other. */
#include "grad/grad.h"

/* The adjoint of conv in its input: a map of the shape `like` from dy. What a strided window left over at the end is output
 * padding. */
static int conv_back(struct grad *g, int dy, int w, const struct conv_attrs *attrs,
                     const struct clcnn_shape *like)
{
    const struct clcnn_shape from = grad_shape(g, dy), taps = grad_shape(g, w);
    struct conv_attrs a = *attrs;
    const int n = like->rank - 2;

    a.output_padding = (struct ints){.n = n};
    for (int i = 0; i < n && g->st == CLCNN_OK; i++) {
        const int32_t extent = a.dilation.v[i] * (taps.dim[i + 2] - 1) + 1;
        const int32_t covered = (from.dim[i + 2] - 1) * a.stride.v[i] + extent;
        a.output_padding.v[i] = like->dim[i + 2] + a.padding.v[i] + a.padding.v[i + n] - covered;
    }
    return grad_node(g, &op_conv_transpose, &a, (const int[]){dy, w, -1}, 3);
}

/* conv, cut to the shape `like`: large output padding makes room for more windows. */
static int conv_forth(struct grad *g, int x, int w, const struct conv_attrs *attrs,
                      const struct clcnn_shape *like)
{
    int y = grad_node(g, &op_conv, attrs, (const int[]){x, w, -1}, 3);

    for (int i = 2; i < like->rank; i++)
        y = grad_range(g, y, i, 0, like->dim[i]);
    return y;
}

static int filters(struct grad *g, int x, int dy, const struct conv_attrs *attrs, const struct clcnn_shape *w)
{
    struct filter_attrs a = {.conv = *attrs, .kernel_size = {.n = w->rank - 2}};

    for (int i = 0; i < w->rank - 2; i++)
        a.kernel_size.v[i] = w->dim[i + 2];
    return grad_node(g, &op_conv_filter_grad, &a, (const int[]){x, dy}, 2);
}

void grad_conv(struct grad *g)
{
    const struct conv_attrs *a = g->node.attrs;
    const int x = g->node.in[0], w = g->node.in[1], dy = g->dy[0];
    const struct clcnn_shape map = grad_shape(g, x), taps = grad_shape(g, w);

    if (grad_wants(g, 0))
        grad_give(g, 0, conv_back(g, dy, w, a, &map));
    if (grad_wants(g, 1))
        grad_give(g, 1, filters(g, x, dy, a, &taps));
    if (grad_wants(g, 2))
        grad_give(g, 2, grad_sum_channels(g, dy));
}

/* That of a convolution of the maps with channels first. */
void grad_depthwise_nhwc(struct grad *g)
{
    static const int32_t first[] = {0, 3, 1, 2}, last[] = {0, 2, 3, 1};
    const struct conv_attrs *a = g->node.attrs;
    const int x = g->node.in[0], w = g->node.in[1];
    const int map = grad_transpose(g, x, first), dy = grad_transpose(g, g->dy[0], first);
    const struct clcnn_shape shape = grad_shape(g, map), taps = grad_shape(g, w);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_transpose(g, conv_back(g, dy, w, a, &shape), last));
    if (grad_wants(g, 1))
        grad_give(g, 1, filters(g, map, dy, a, &taps));
    if (grad_wants(g, 2))
        grad_give(g, 2, grad_sum_channels(g, dy));
}

void grad_conv_transpose(struct grad *g)
{
    const struct conv_attrs *a = g->node.attrs;
    const int x = g->node.in[0], w = g->node.in[1], dy = g->dy[0];
    const struct clcnn_shape map = grad_shape(g, x), taps = grad_shape(g, w);

    if (grad_wants(g, 0))
        grad_give(g, 0, conv_forth(g, dy, w, a, &map));
    if (grad_wants(g, 1))
        grad_give(g, 1, filters(g, dy, x, a, &taps));
    if (grad_wants(g, 2))
        grad_give(g, 2, grad_sum_channels(g, dy));
}

/* Linear in each: the maps x and dy of a convolution, whose filters' gradient is the result. */
void grad_conv_filter_grad(struct grad *g)
{
    const struct filter_attrs *a = g->node.attrs;
    const int x = g->node.in[0], dy = g->node.in[1], dw = g->dy[0];
    const struct clcnn_shape in = grad_shape(g, x), out = grad_shape(g, dy);

    if (grad_wants(g, 0))
        grad_give(g, 0, conv_back(g, dy, dw, &a->conv, &in));
    if (grad_wants(g, 1))
        grad_give(g, 1, conv_forth(g, x, dw, &a->conv, &out));
}
