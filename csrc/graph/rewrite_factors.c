/* rewrite_factors.c: constants that multiply whole matrices of a batched product multiply the rows that it is made of instead.
 *
 *   mul(matmul(q, k), c[heads][1][1])   =>   matmul(mul(q, c), k)
 *
 * Swin v2 scales its scores so, a factor a head. In its new place the factor no longer stands between a product and a softmax that
 * become attention, and q has fewer elements than the scores. */
#include "graph/match.h"

enum { MOST_MORE = 2 }; /* times as many elements as the result may the operand have */

/* Whether constant c has a value for each matrix of x, more than one of them in all, and leaves x's shape. */
static bool is_factor(const struct rewriter *r, int c, const struct clcnn_shape *x)
{
    const struct clcnn_shape *s = &r->g->values[c].shape;
    if (!rewrite_is_constant(r, c) || s->rank < 3 || s->rank > x->rank || shape_count(s) == 1)
        return false;
    for (int d = 1; d <= s->rank; d++) {
        const int32_t size = s->dim[s->rank - d];
        if (size != 1 && (d <= 2 || size != x->dim[x->rank - d]))
            return false;
    }
    return true;
}

/* The product that `mul` scales, and which of its inputs that is; NULL where it is something else. */
static struct node *product_of(const struct rewriter *r, const struct node *mul, int *at)
{
    for (*at = 0; *at < 2; ++*at) {
        struct node *n = rewrite_sole_producer(r, mul->in[*at]);
        if (!n || !rewrite_is(n, &op_matmul) || n->epi.act != ACT_none || n->epi.add >= 0 ||
            rewrite_is_overridden(r, n))
            continue;
        const struct clcnn_shape *q = &r->g->values[n->in[0]].shape, *y = &r->g->values[n->out[0]].shape;
        if (q->rank == y->rank && shape_count(q) <= MOST_MORE * shape_count(y) &&
            is_factor(r, mul->in[1 - *at], q) && is_factor(r, mul->in[1 - *at], y))
            return n;
    }
    return NULL;
}

/* The two nodes change places, and the value between them is the scaled operand. */
static void exchange(struct rewriter *r, struct node *product, struct node *mul, int at)
{
    const int q = product->in[0], between = product->out[0], result = mul->out[0];
    const struct node was = *product;
    *product = *mul;
    *mul = was;
    product->in[at] = q;
    product->out[0] = mul->in[0] = between;
    mul->out[0] = result;
    r->g->values[between].shape = r->g->values[q].shape;
}

enum clcnn_status rewrite_move_factors(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *mul = &r->g->nodes[i], *product;
        int at;
        if (mul->dead || !rewrite_is(mul, &op_mul) || mul->epi.act != ACT_none || mul->epi.add >= 0 ||
            rewrite_is_overridden(r, mul) || !(product = product_of(r, mul, &at)))
            continue;
        TRY(rewrite_note(r, "multiply the rows of matmul %s by the constant of mul %s", product->name,
                         mul->name));
        exchange(r, product, mul, at);
    }
done:
    return st;
}
