/* grad_batch_norm.c: batch normalisation, by running statistics and by the batch's, and the gradient of the latter's. */
#include <math.h>

#include "grad/grad.h"

#define DY (g->dy[0])

/* By statistics that are given: a scale and a shift a channel. */
void grad_batch_norm(struct grad *g)
{
    const int *in = g->node.in, rank = grad_shape(g, DY).rank;
    const double eps = ((const struct norm_attrs *)g->node.attrs)->eps;

    if (grad_wants(g, 0)) {
        const int root = grad_of(g, &op_sqrt, grad_plus(g, in[4], eps));
        grad_give(g, 0, grad_mul(g, DY, grad_channels(g, grad_div(g, in[1], root), rank)));
    }
    if (grad_wants(g, 1)) {
        const int root = grad_of(g, &op_sqrt, grad_plus(g, in[4], eps));
        const int centred = grad_sub(g, in[0], grad_channels(g, in[3], rank));
        grad_give(g, 1, grad_div(g, grad_sum_channels(g, grad_mul(g, DY, centred)), root));
    }
    if (grad_wants(g, 2))
        grad_give(g, 2, grad_sum_channels(g, DY));
    if (grad_wants(g, 3) || grad_wants(g, 4))
        grad_unsupported(g, "for running statistics");
}

/* One operator gives all three. */
void grad_batch_norm_train(struct grad *g)
{
    const int *in = g->node.in, *y = g->node.out;
    int out[MAX_OUTPUTS] = {-1, -1, -1};

    if (g->dy[1] >= 0 || g->dy[2] >= 0) {
        grad_unsupported(g, "by way of the batch's mean and variance");
        return;
    }
    grad_wants(g, 0);
    grad_outputs(g, &op_batch_norm_train_grad, g->node.attrs,
                 (const int[]){DY, in[0], in[1], y[1], y[2], in[2]}, 6, out);
    for (int i = 0; i < 3; i++)
        grad_give(g, i, out[i]);
}

/* ---- the second derivative ---- */

/* A batch norm's values: n = (x - mean) / root, a mean over all but the channels, its root as a vector and as it broadcasts. */
struct batch {
    int n, root, rank;
    double share; /* 1 over the elements of a channel */
};

static int wide(struct grad *g, const struct batch *b, int vector)
{
    return grad_channels(g, vector, b->rank);
}

/* Means over each channel, as a vector. */
static int mean(struct grad *g, const struct batch *b, int x)
{
    return grad_scale(g, grad_sum_channels(g, x), b->share);
}

/* What is left of v without its mean and its part along n. */
static int projected(struct grad *g, const struct batch *b, int v)
{
    const int along = grad_mul(g, b->n, wide(g, b, mean(g, b, grad_mul(g, v, b->n))));

    return grad_sub(g, grad_sub(g, v, wide(g, b, mean(g, b, v))), along);
}

/* By way of x: through n, and through the root that both the gradient and n are divided by. */
static int through_x(struct grad *g, const struct batch *b, int dy, int weight, int v, int u)
{
    int h = -1, dx;

    if (v >= 0) {
        const int scale = wide(g, b, grad_div(g, weight, b->root));
        const int both = grad_add(g, grad_mul(g, dy, wide(g, b, mean(g, b, grad_mul(g, v, b->n)))),
                                  grad_mul(g, v, wide(g, b, mean(g, b, grad_mul(g, dy, b->n)))));
        h = grad_of(g, &op_neg, grad_mul(g, scale, both));
    }
    if (u >= 0) {
        const int of_weight = grad_mul(g, wide(g, b, u), dy);
        h = h < 0 ? of_weight : grad_add(g, h, of_weight);
    }
    dx = grad_div(g, projected(g, b, h), wide(g, b, b->root));
    if (v >= 0) {
        const int whole = mean(g, b, grad_mul(g, v, projected(g, b, dy)));
        const int factor = grad_div(g, grad_mul(g, weight, whole), grad_mul(g, b->root, b->root));
        dx = grad_sub(g, dx, grad_mul(g, b->n, wide(g, b, factor)));
    }
    return dx;
}

/* dx = weight / root * projected(dy), dweight = sum of dy * n, dbias = sum of dy; v, u and t are their gradients. Mean and variance are
 * functions of x, and are no inputs of their own here. */
void grad_batch_norm_train_grad(struct grad *g)
{
    enum { OF_DY, OF_X, OF_WEIGHT, MEAN, VAR };
    const int *in = g->node.in, v = g->dy[0], u = g->dy[1], t = g->dy[2];
    const struct clcnn_shape x = grad_shape(g, in[OF_X]);
    const struct norm_train_attrs *attrs = g->node.attrs;
    struct batch b = {.rank = x.rank, .share = (double)x.dim[1] / (double)shape_count(&x)};

    if (!grad_wants(g, OF_DY) && !grad_wants(g, OF_X) && !grad_wants(g, OF_WEIGHT))
        return;
    if (attrs->low > -INFINITY || attrs->high < INFINITY) {
        grad_unsupported(g, "of results that are clipped");
        return;
    }
    b.root = grad_of(g, &op_sqrt, grad_plus(g, in[VAR], attrs->eps));
    b.n = grad_div(g, grad_sub(g, in[OF_X], wide(g, &b, in[MEAN])), wide(g, &b, b.root));
    if (grad_wants(g, OF_DY)) {
        int d = grad_number(g, 0.0);
        if (v >= 0)
            d = grad_mul(g, wide(g, &b, grad_div(g, in[OF_WEIGHT], b.root)), projected(g, &b, v));
        if (u >= 0)
            d = grad_add(g, d, grad_mul(g, wide(g, &b, u), b.n));
        if (t >= 0)
            d = grad_add(g, d, wide(g, &b, t));
        grad_give(g, OF_DY, grad_expand(g, d, &x));
    }
    if (grad_wants(g, OF_X) && (v >= 0 || u >= 0))
        grad_give(g, OF_X, through_x(g, &b, in[OF_DY], in[OF_WEIGHT], v, u));
    if (grad_wants(g, OF_WEIGHT) && v >= 0)
        grad_give(g, OF_WEIGHT,
                  grad_div(g, grad_sum_channels(g, grad_mul(g, v, projected(g, &b, in[OF_DY]))), b.root));
}
