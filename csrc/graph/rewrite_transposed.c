/* rewrite_transposed.c: a transposed convolution at stride 1 is a convolution with its filters flipped (conv_of_transposed):
 *
 *   w'[g * K/g + k][c][t] = w[g * C/g + c][k][taps - 1 - t]
 */
#include "graph/rewrite.h"

/* Input and weights of such a node, whose convolution has no negative padding. A single pixel is left out: each output meets
 * one tap, where the convolution would go through all of them. */
static bool is_convolution(const struct rewriter *r, const struct node *n)
{
    if (!rewrite_is(n, &op_conv_transpose) || !rewrite_is_constant(r, n->in[1]))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *w = &r->g->values[n->in[1]].shape;
    struct conv_attrs conv;
    return conv_of_transposed(&conv, n->attrs, w) && shape_count_from(x, 2) > 1;
}

/* Shape of the convolution's weights [K][C/groups][...]. */
static struct clcnn_shape flipped_shape(const struct clcnn_shape *w, int groups)
{
    struct clcnn_shape shape = *w;
    shape.dim[0] = w->dim[1] * groups;
    shape.dim[1] = w->dim[0] / groups;
    return shape;
}

static void flip(const float *w, float *to, const struct clcnn_shape *shape, int groups)
{
    const int64_t per_group = shape->dim[0] / groups, channels = shape->dim[1],
                  taps = shape_count_from(shape, 2);
    for (int64_t k = 0; k < shape->dim[0]; k++)
        for (int64_t c = 0; c < channels; c++, to += taps) {
            const float *from = w + ((k / per_group * channels + c) * per_group + k % per_group) * taps;
            for (int64_t t = 0; t < taps; t++)
                to[t] = from[taps - 1 - t];
        }
}

static enum clcnn_status to_conv(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    struct conv_attrs *a = n->attrs;
    /* values may move when one is added */
    const struct clcnn_shape shape = flipped_shape(&r->g->values[n->in[1]].shape, a->groups);
    int w = -1;
    TRY(graph_owned_constant(r->g, &shape, &w, r->err));
    flip(r->g->values[n->in[1]].data, r->g->values[w].owned, &shape, a->groups);
    conv_of_transposed(a, a, &shape);
    n->in[1] = w;
    n->op = &op_conv;
done:
    return st;
}

enum clcnn_status rewrite_transposed_to_conv(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead || !is_convolution(r, n) || rewrite_is_forced(r, n, &op_conv))
            continue;
        TRY(rewrite_note(r, "turn conv_transpose %s at stride 1 into a conv", n->name));
        TRY(to_conv(r, n));
    }
done:
    return st;
}
