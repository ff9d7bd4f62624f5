/* grad_norm.c: softmax, and normalisations by statistics of their own. */
#include "grad/grad.h"

#define DY (g->dy[0])
#define Y (g->node.out[0])

/* ---- softmax ---- */

static unsigned along(const struct grad *g)
{
    return 1u << ((const struct dim_attrs *)g->node.attrs)->dim;
}

void grad_softmax(struct grad *g)
{
    if (!grad_wants(g, 0))
        return;
    const int mean = grad_reduce(g, &op_reduce_sum, grad_mul(g, DY, Y), along(g), true);
    grad_give(g, 0, grad_mul(g, Y, grad_sub(g, DY, mean)));
}

void grad_log_softmax(struct grad *g)
{
    if (!grad_wants(g, 0))
        return;
    const int sum = grad_reduce(g, &op_reduce_sum, DY, along(g), true);
    grad_give(g, 0, grad_sub(g, DY, grad_mul(g, grad_of(g, &op_exp, Y), sum)));
}

/* ---- rows by their own statistics ---- */

/* The gradient of x in n = x / root, or (x - mean) / root, with root of the mean square over `dims` of what is above it:
 * (dn - mean(dn) - n * mean(dn * n)) / root. */
static int normed_back(struct grad *g, int dn, int n, int root, unsigned dims, bool centred)
{
    const int along_n = grad_mul(g, n, grad_reduce(g, &op_reduce_mean, grad_mul(g, dn, n), dims, true));
    const int rest = centred ? grad_sub(g, dn, grad_reduce(g, &op_reduce_mean, dn, dims, true)) : dn;

    return grad_div(g, grad_sub(g, rest, along_n), root);
}

/* n and root of the above from x. */
static int normed(struct grad *g, int x, unsigned dims, bool centred, double eps, int *root)
{
    const int above = centred ? grad_sub(g, x, grad_reduce(g, &op_reduce_mean, x, dims, true)) : x;
    const int square = grad_reduce(g, &op_reduce_mean, grad_mul(g, above, above), dims, true);

    *root = grad_of(g, &op_sqrt, grad_plus(g, square, eps));
    return grad_div(g, above, *root);
}

/* A parameter as it broadcasts against x: its dimensions begin at `dim`. */
static int placed(struct grad *g, int parameter, int dim, int rank)
{
    const struct clcnn_shape own = grad_shape(g, parameter);
    struct clcnn_shape shape = {.rank = rank - dim};

    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = i < own.rank ? own.dim[i] : 1;
    return grad_reshape(g, parameter, &shape);
}

static bool has(const struct grad *g, int i)
{
    return i < g->node.n_in && g->node.in[i] >= 0;
}

/* Of x as `shape`, normed over `dims`; parameters begin at dimension `dim` of x itself. */
static void rows_rule(struct grad *g, const struct clcnn_shape *shape, unsigned dims, bool centred, int dim)
{
    const int x = g->node.in[0];
    const struct clcnn_shape own = grad_shape(g, x);
    const double eps = ((const struct rows_norm_attrs *)g->node.attrs)->eps;
    int root;

    if (grad_wants(g, 0)) {
        const int dn = has(g, 1) ? grad_mul(g, DY, placed(g, g->node.in[1], dim, own.rank)) : DY;
        const int n = normed(g, grad_reshape(g, x, shape), dims, centred, eps, &root);
        const int dx = normed_back(g, grad_reshape(g, dn, shape), n, root, dims, centred);
        grad_give(g, 0, grad_reshape(g, dx, &own));
    }
    for (int i = 1; i < g->node.n_in; i++) {
        if (!grad_wants(g, i))
            continue;
        const struct clcnn_shape parameter = grad_shape(g, g->node.in[i]);
        const int placed_one = placed(g, g->node.in[i], dim, own.rank);
        const struct clcnn_shape wide = grad_shape(g, placed_one);
        int all = DY;
        if (i == 1) {
            const int n = normed(g, grad_reshape(g, x, shape), dims, centred, eps, &root);
            all = grad_mul(g, DY, grad_reshape(g, n, &own));
        }
        grad_give(g, i, grad_reshape(g, grad_sum_to(g, all, &wide), &parameter));
    }
}

/* group_norm, and instance_norm, whose groups are channels. */
void grad_group_norm(struct grad *g)
{
    const struct rows_norm_attrs *a = g->node.attrs;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);
    const int32_t groups = g->node.op == &op_group_norm ? a->groups : x.dim[1];
    const struct clcnn_shape rows = {.rank = 3,
                                     .dim = {x.dim[0], groups, (int32_t)(shape_count_from(&x, 1) / groups)}};

    rows_rule(g, &rows, 4u, true, 1);
}

/* layer_norm and rms_norm. */
void grad_layer_norm(struct grad *g)
{
    const struct rows_norm_attrs *a = g->node.attrs;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);

    rows_rule(g, &x, ((1u << a->dims) - 1) << a->dim, g->node.op == &op_layer_norm, a->dim);
}

/* x / max(norm, eps): along x itself only where the norm counts. */
void grad_l2_norm(struct grad *g)
{
    const struct rows_norm_attrs *a = g->node.attrs;
    const unsigned dims = 1u << a->dim;
    const int x = g->node.in[0];

    if (!grad_wants(g, 0))
        return;
    const int norm = grad_of(g, &op_sqrt, grad_reduce(g, &op_reduce_sum, grad_mul(g, x, x), dims, true));
    const int divisor = grad_of_two(g, &op_maximum, norm, grad_number(g, a->eps));
    const int projection = grad_reduce(g, &op_reduce_sum, grad_mul(g, DY, Y), dims, true);
    const int counts = grad_masked(g, projection, grad_plus(g, norm, -(double)a->eps));
    grad_give(g, 0, grad_div(g, grad_sub(g, DY, grad_mul(g, Y, counts)), divisor));
}

/* ---- local response norm ---- */

/* Means over `size` neighbouring channels, `before` of them before the own one. */
static int neighbours(struct grad *g, int x, int32_t size, int32_t before)
{
    const struct clcnn_shape s = grad_shape(g, x);
    const struct pool_attrs a = {.kernel_size = {2, {size, 1}},
                                 .stride = {2, {1, 1}},
                                 .padding = {4, {before, 0, size - 1 - before, 0}},
                                 .dilation = {2, {1, 1}},
                                 .count_include_pad = 1};
    const struct clcnn_shape map = {.rank = 4,
                                    .dim = {s.dim[0], 1, s.dim[1], (int32_t)shape_count_from(&s, 2)}};
    const int flat = grad_reshape(g, x, &map);

    return grad_reshape(g, grad_node(g, &op_avg_pool, &a, &flat, 1), &s);
}

/* y = x * d^-beta with d = k + alpha * mean of x^2: dx = dy * d^-beta - 2 alpha beta x * mean of (dy * y / d), over the channels
 * whose means the own one is part of. */
void grad_local_response_norm(struct grad *g)
{
    const struct lrn_attrs *a = g->node.attrs;
    const int x = g->node.in[0];

    if (!grad_wants(g, 0))
        return;
    const int32_t before = a->size / 2;
    const int mean = neighbours(g, grad_mul(g, x, x), a->size, before);
    const int d = grad_plus(g, grad_scale(g, mean, a->alpha), a->k);
    const int own = grad_mul(g, DY, grad_of_two(g, &op_pow, d, grad_number(g, -(double)a->beta)));
    const int shares = neighbours(g, grad_div(g, grad_mul(g, DY, Y), d), a->size, a->size - 1 - before);
    grad_give(g, 0, grad_sub(g, own, grad_scale(g, grad_mul(g, x, shares), 2.0 * a->alpha * a->beta)));
}
