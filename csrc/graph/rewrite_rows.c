/* rewrite_rows.c: normalisations that exporters write out become one operator.
 *
 *   (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)     =>   layer_norm
 *   x / sqrt(mean(x^2) + eps)                             =>   rms_norm
 *   x / max(sqrt(sum(x^2)), eps)                          =>   l2_norm
 *   reshape(instance_norm(reshape(x, [N, G, -1])), x)     =>   group_norm
 *
 * The root may be a power, and its inverse a factor. One constant factor of the normalised dimensions' shape is the weight;
 * further ones, and constants that are added, are taken by rewrite_take_scales. */
#include "graph/match.h"

#include <math.h>
#include <string.h>

/* x by the root of something: its node, what is under the root. */
struct rooted {
    int x, under, weight; /* weight: -1 when there is none */
};

/* The value whose square root, or its inverse where `inverse`, is `value`; -1 when that is none. */
static int under_root(const struct rewriter *r, int value, bool inverse, struct match *m)
{
    struct node *n = rewrite_sole_producer(r, value);
    double power;
    if (!n)
        return -1;
    const bool root = rewrite_is(n, &op_sqrt) && !inverse;
    if (!root &&
        !(rewrite_is(n, &op_pow) && match_scalar(r, n->in[1], &power) && power == (inverse ? -0.5 : 0.5)))
        return -1;
    match_add(m, n);
    return n->in[0];
}

/* Takes one factor of the product as the root, and of those left a constant as the weight. */
static bool split_factors(const struct rewriter *r, const struct match_quotient *q, struct match *m,
                          struct rooted *out)
{
    int rest[4], n = 0;
    *out = (struct rooted){-1, -1, -1};
    if (q->full || q->scale != 1.0 || q->n_den > 1 || q->n_num + q->n_den > 3)
        return false;
    if (q->n_den == 1)
        out->under = under_root(r, q->den[0], false, m);
    for (int i = 0; i < q->n_num; i++) {
        const int under = out->under < 0 ? under_root(r, q->num[i], true, m) : -1;
        if (under >= 0)
            out->under = under;
        else if (rewrite_is_constant(r, q->num[i]) && out->weight < 0)
            out->weight = q->num[i];
        else
            rest[n++] = q->num[i];
    }
    out->x = n == 1 ? rest[0] : -1;
    return out->x >= 0 && out->under >= 0;
}

/* The node that reduces over dimensions and keeps them, dimension by dimension in one piece; NULL for others. */
static struct node *reduction(const struct rewriter *r, int value, const struct op_def *op)
{
    struct node *n = match_op(r, value, op);
    if (!n)
        return NULL;
    const struct reduce_attrs *a = n->attrs;
    for (int i = 1; i < a->axes.n; i++)
        if (a->axes.v[i] != a->axes.v[i - 1] + 1)
            return NULL;
    return a->keepdims && a->axes.n > 0 ? n : NULL;
}

static bool same_axes(const struct node *a, const struct node *b)
{
    const struct ints *p = &((const struct reduce_attrs *)a->attrs)->axes,
                      *q = &((const struct reduce_attrs *)b->attrs)->axes;
    return p->n == q->n && memcmp(p->v, q->v, (size_t)p->n * sizeof *p->v) == 0;
}

/* What x - mean(x) is computed of: x, and the node of the mean. */
static int centred(const struct rewriter *r, int value, struct match *m, const struct node **mean)
{
    struct node *n = match_op(r, value, &op_sub);
    struct node *reduced = n ? reduction(r, n->in[1], &op_reduce_mean) : NULL;
    if (!reduced || reduced->in[0] != n->in[0])
        return -1;
    match_add(m, n);
    match_add(m, reduced);
    *mean = reduced;
    return n->in[0];
}

/* Whether a constant has the shape of the dimensions that `reduced` reduces, beside ones. */
static bool fits(const struct rewriter *r, int constant, const struct node *reduced)
{
    const struct clcnn_shape *w = &r->g->values[constant].shape, *x = &r->g->values[reduced->in[0]].shape;
    const struct ints *axes = &((const struct reduce_attrs *)reduced->attrs)->axes;
    const int first = axes->v[0], last = axes->v[axes->n - 1];
    if (w->rank > x->rank || w->dtype != CLCNN_FLOAT32)
        return false;
    for (int i = 0; i < x->rank; i++) {
        const int k = i - (x->rank - w->rank);
        if ((k >= 0 ? w->dim[k] : 1) != (i >= first && i <= last ? x->dim[i] : 1))
            return false;
    }
    return true;
}

/* A constant under the shape of the dimensions that are normalised. */
static enum clcnn_status as_weight(struct rewriter *r, int constant, const struct node *reduced, int *weight)
{
    enum clcnn_status st = CLCNN_OK;
    const struct ints *axes = &((const struct reduce_attrs *)reduced->attrs)->axes;
    struct clcnn_shape shape = {.rank = axes->n};
    for (int i = 0; i < axes->n; i++)
        shape.dim[i] = r->g->values[reduced->in[0]].shape.dim[axes->v[i]];
    TRY(rewrite_constant(r, &shape, weight));
    memcpy(r->g->values[*weight].owned, r->g->values[constant].data, shape_bytes(&shape));
done:
    return st;
}

static enum clcnn_status become(struct rewriter *r, struct node *last, const struct match *m,
                                const struct op_def *op, int x, const struct node *reduced, int constant,
                                double eps)
{
    enum clcnn_status st = CLCNN_OK;
    const struct ints *axes = &((const struct reduce_attrs *)reduced->attrs)->axes;
    struct match_result result = {
        .op = op,
        .n_in = op == &op_l2_norm    ? 1
                : op == &op_rms_norm ? 2
                                     : 3,
        .in = {x, -1, -1},
        .n_attrs = op == &op_l2_norm ? 2 : 3,
        .attrs = {{.name = "eps", .kind = CLCNN_ATTR_FLOAT, .f = eps},
                  {.name = "dim", .kind = CLCNN_ATTR_INT, .i = axes->v[0]},
                  {.name = "dims", .kind = CLCNN_ATTR_INT, .i = axes->n}},
    };
    if (constant >= 0)
        TRY(as_weight(r, constant, reduced, &result.in[1]));
    TRY(match_replace(r, m, last, &result));
done:
    return st;
}

/* What stands under the root, without eps: the node of the mean of squares. */
static struct node *mean_square(const struct rewriter *r, int under, struct match *m, double *eps)
{
    const struct match_affine a = match_affine(r, under, m);
    struct node *mean = reduction(r, a.value, &op_reduce_mean);
    *eps = a.shift;
    if (!mean || a.scale != 1.0 || !(a.shift >= 0.0))
        return NULL;
    match_add(m, mean);
    return mean;
}

/* x, or -1: `top` is x - mean(x), and `square` the mean of its square, which may have been computed again. */
static int of_layer_norm(const struct rewriter *r, int top, const struct node *square, struct match *m)
{
    const struct node *mean = NULL, *again = NULL, *once_more = NULL;
    int other = -1;
    const int x = centred(r, top, m, &mean), root = match_square(r, square->in[0], m, &other);
    if (x < 0 || root < 0 || centred(r, root, m, &again) != x || centred(r, other, m, &once_more) != x)
        return -1;
    return same_axes(mean, again) && same_axes(mean, once_more) && same_axes(mean, square) ? x : -1;
}

static enum clcnn_status match_by_mean(struct rewriter *r, struct node *last, bool *done)
{
    struct match m = {0};
    struct rooted by;
    double eps;
    int other = -1;
    const struct match_quotient q = match_quotient(r, last, &m);
    if (!split_factors(r, &q, &m, &by))
        return CLCNN_OK;
    const struct node *square = mean_square(r, by.under, &m, &eps);
    if (!square || (by.weight >= 0 && !fits(r, by.weight, square)))
        return CLCNN_OK;
    struct match rms = m;
    const struct op_def *op = &op_layer_norm;
    int x = of_layer_norm(r, by.x, square, &m);
    if (x < 0 && match_square(r, square->in[0], &rms, &other) == by.x && other == by.x) {
        x = by.x;
        op = &op_rms_norm;
        m = rms;
    }
    if (x < 0 || !shape_equal(&r->g->values[x].shape, &r->g->values[last->out[0]].shape) ||
        !match_closed(r, &m, last, op))
        return CLCNN_OK;
    *done = true;
    return become(r, last, &m, op, x, square, by.weight, eps);
}

/* ---- l2_norm ---------------------------------------------------------------------------------------------- */

/* The value that `value` is, but for a lower limit. */
static int over_limit(const struct rewriter *r, int value, struct match *m, double *limit)
{
    struct node *n = rewrite_sole_producer(r, value);
    if (!n)
        return -1;
    const struct eltwise_attrs *a = n->attrs;
    const int place = rewrite_is(n, &op_maximum) ? match_scalar_operand(r, n, limit) : -1;
    if (rewrite_is(n, &op_clip) && a->p1 == INFINITY)
        *limit = a->p0;
    else if (place < 0)
        return -1;
    match_add(m, n);
    return n->in[place == 0];
}

static enum clcnn_status match_by_norm(struct rewriter *r, struct node *last)
{
    struct match m = {0};
    double limit = -1.0;
    int other = -1;
    if (!rewrite_is(last, &op_div))
        return CLCNN_OK;
    const int x = last->in[0], norm = over_limit(r, last->in[1], &m, &limit);
    const int under = norm < 0 || !(limit > 0.0) ? -1 : under_root(r, norm, false, &m);
    struct node *sum = under < 0 ? NULL : reduction(r, under, &op_reduce_sum);
    if (!sum || ((const struct reduce_attrs *)sum->attrs)->axes.n != 1)
        return CLCNN_OK;
    match_add(&m, sum);
    if (match_square(r, sum->in[0], &m, &other) != x || other != x ||
        !shape_equal(&r->g->values[x].shape, &r->g->values[last->out[0]].shape) ||
        !match_closed(r, &m, last, &op_l2_norm))
        return CLCNN_OK;
    return become(r, last, &m, &op_l2_norm, x, sum, -1, limit);
}

enum clcnn_status rewrite_find_row_norms(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        bool done = false;
        if (n->dead || !(rewrite_is(n, &op_mul) || rewrite_is(n, &op_div)) ||
            r->g->values[n->out[0]].shape.dtype != CLCNN_FLOAT32)
            continue;
        TRY(match_by_mean(r, n, &done));
        if (!done)
            TRY(match_by_norm(r, n));
    }
done:
    return st;
}
