/* rewrite_masks.c: masks of ReLUs are no passes of their own. A ReLU or ReLU6 after a batch norm by its own statistics becomes
 * limits of that norm, and what its gradient does to dy limits of the norm's gradient, which tells from x where they were met:
 *
 *   relu(norm(x))                                          =>   norm(x, low=0)
 *   norm_grad(relu_grad(dy, y), x)                         =>   norm_grad(dy, x, low=0)
 *   norm_grad(relu_grad(relu_grad(dy, y), 6 - y), x)       =>   norm_grad(dy, x, low=0, high=6)
 *
 * with y the result of the norm of x: one pass over maps less forward, and one or three backward. The gradient of maxima of what a
 * ReLU gave has them at hand:
 *
 *   relu_grad(max_pool_grad(x, dy), x)                     =>   max_pool_grad(x, dy, rectified=1) */
#include <math.h>

#include "graph/rewrite.h"

/* The norm that computes a value as its first result; NULL when it is none. */
static struct node *norm_of(const struct rewriter *r, int value)
{
    const struct value *v = &r->g->values[value];
    struct node *n = v->kind == VALUE_NODE ? &r->g->nodes[v->producer] : NULL;
    return n && rewrite_is(n, &op_batch_norm_train) && n->out[0] == value ? n : NULL;
}

static bool is_clipped(const struct node *norm)
{
    const struct norm_train_attrs *a = norm->attrs;
    return a->low > -INFINITY || a->high < INFINITY;
}

/* The norm gives what n gives, and stays where it is: others read its statistics before n. */
static enum clcnn_status clip_norm(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    float low = 0.0f, high = 0.0f;
    enum act act;
    if (!act_of_op(n->op, n->attrs, &act, &low, &high) || act_as_clip(act, &low, &high) != ACT_clip)
        return CLCNN_OK;
    struct node *norm = norm_of(r, n->in[0]);
    if (!norm || r->uses[n->in[0]] != 1 || is_clipped(norm) || norm->epi.add >= 0 || !(low < high))
        return CLCNN_OK;
    TRY(rewrite_note(r, "fuse %s %s into %s %s", n->op->name, n->name, norm->op->name, norm->name));
    struct norm_train_attrs *a = norm->attrs;
    a->low = low;
    a->high = high;
    rewrite_take_result(r, norm, n);
done:
    return st;
}

/* The node that computes `value` alone, if it is of this operator; NULL otherwise. */
static struct node *sole(const struct rewriter *r, int value, const struct op_def *op)
{
    struct node *n = rewrite_sole_producer(r, value);
    return n && rewrite_is(n, op) ? n : NULL;
}

/* Whether `value` is limit - y. */
static struct node *below(const struct rewriter *r, int value, float limit, int y)
{
    struct node *n = sole(r, value, &op_sub);
    if (!n || n->in[1] != y || !rewrite_is_constant(r, n->in[0]))
        return NULL;
    const struct value *v = &r->g->values[n->in[0]];
    return shape_count(&v->shape) == 1 && *(const float *)v->data == limit ? n : NULL;
}

/* The norm's gradient takes dy as it comes. */
static enum clcnn_status clip_grad(struct rewriter *r, struct node *grad)
{
    enum { DY, X, MEAN = 3 };
    enum clcnn_status st = CLCNN_OK;
    struct node *mask = sole(r, grad->in[DY], &op_relu_grad), *upper = NULL, *rest = NULL;
    const struct value *mean = &r->g->values[grad->in[MEAN]];
    const struct node *norm = mean->kind == VALUE_NODE ? &r->g->nodes[mean->producer] : NULL;
    if (!mask || is_clipped(grad) || !norm || !rewrite_is(norm, &op_batch_norm_train) ||
        norm->in[0] != grad->in[X])
        return CLCNN_OK;
    const struct norm_train_attrs *a = norm->attrs;
    const int y = norm->out[0];
    if (a->high < INFINITY) {
        upper = mask;
        rest = below(r, upper->in[1], a->high, y);
        mask = rest ? sole(r, upper->in[0], &op_relu_grad) : NULL;
    }
    if (!mask || mask->in[1] != y || a->low != 0.0f ||
        !shape_equal(&r->g->values[mask->in[0]].shape, &r->g->values[y].shape))
        return CLCNN_OK;
    TRY(rewrite_note(r, "fuse %s %s into %s %s", mask->op->name, mask->name, grad->op->name, grad->name));
    *(struct norm_train_attrs *)grad->attrs = *a;
    grad->in[DY] = mask->in[0];
    mask->dead = true;
    if (upper)
        upper->dead = rest->dead = true;
done:
    return st;
}

static enum clcnn_status rectify_maxima(struct rewriter *r, struct node *mask)
{
    enum clcnn_status st = CLCNN_OK;
    struct node *grad = sole(r, mask->in[0], &op_max_pool_grad);
    struct max_pool_grad_attrs *a = grad ? grad->attrs : NULL;
    if (!grad || grad->in[0] != mask->in[1] || a->rectified || rewrite_is_overridden(r, mask))
        return CLCNN_OK;
    TRY(rewrite_note(r, "fuse %s %s into %s %s", mask->op->name, mask->name, grad->op->name, grad->name));
    a->rectified = 1;
    rewrite_move(r, grad, mask);
done:
    return st;
}

enum clcnn_status rewrite_masks(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead)
            continue;
        if (n->n_in == 1)
            TRY(clip_norm(r, n));
        else if (rewrite_is(n, &op_batch_norm_train_grad))
            TRY(clip_grad(r, n));
        else if (rewrite_is(n, &op_relu_grad))
            TRY(rectify_maxima(r, n));
    }
done:
    return st;
}
