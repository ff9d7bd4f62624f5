/* rewrite_attention.c: softmax(q k^T * scale + masks) v, written as matrix products and a softmax, becomes attention:
 *
 *   matmul(q, k^T) [* or / a number] [+ masks] -> softmax along the last dimension -> matmul with v
 *
 * The scores may change their shape on the way, and nothing else may read them. q and k may be scaled, and one head of k or v may
 * be for all heads of q (multi-query attention: Shazeer 2019). What only moves the elements of q, k, v and of the result is left
 * out, too: the operands become views. So do two masks where rows of k are numbers of two digits, and each mask is one for all
 * values of a digit (positions in a map that are relative along its height and its width). */
#include "graph/match.h"
#include "graph/rewrite_attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the scores ---------------------------------------------------------------------------------------- */

static bool same_matrices(const struct rewriter *r, int a, int b)
{
    const struct clcnn_shape *x = &r->g->values[a].shape, *y = &r->g->values[b].shape;
    return x->rank >= 2 && y->rank >= 2 && x->dim[x->rank - 1] == y->dim[y->rank - 1] &&
           x->dim[x->rank - 2] == y->dim[y->rank - 2];
}

/* A node that only changes the dimensions before the last two. */
static bool keeps_matrices(const struct rewriter *r, const struct node *n)
{
    return rewrite_is_reshape(n) && same_matrices(r, n->in[0], n->out[0]);
}

static bool find_scores(const struct rewriter *r, int value, struct attention *a);

/* One operand of the addition leads to the scores, the other one is a mask. */
static bool find_masked(const struct rewriter *r, struct node *add, struct attention *a)
{
    const struct clcnn_shape *y = &r->g->values[add->out[0]].shape;
    for (int i = 0; i < 2 && !a->scaled && a->masks < MOST_MASKS; i++) {
        struct attention tried = *a;
        if (!shape_equal(&r->g->values[add->in[i]].shape, y))
            continue;
        tried.mask[tried.masks++] = (struct mask){add->in[1 - i], *y};
        if (find_scores(r, add->in[i], &tried)) {
            *a = tried;
            return true;
        }
    }
    return false;
}

/* From the softmax's input back to the product that makes the scores. */
static bool find_scores(const struct rewriter *r, int value, struct attention *a)
{
    struct node *n = rewrite_sole_producer(r, value);
    double factor;
    if (!n || n->epi.act != ACT_none || n->epi.add >= 0)
        return false;
    if (rewrite_is(n, &op_matmul)) {
        a->scores = n;
        return true;
    }
    if (a->n_between == MOST_NODES)
        return false;
    a->between[a->n_between++] = n;
    if (rewrite_is_reshape(n))
        return find_scores(r, n->in[0], a);
    if (rewrite_is(n, &op_add))
        return find_masked(r, n, a);
    const int x = match_scaled(r, n, &factor);
    if (x < 0)
        return false;
    a->scaled = true;
    a->scale *= factor;
    return find_scores(r, n->in[x], a);
}

/* Two operands with the same leading dimensions, and the result's; the second one may be for all heads of an item. */
static bool is_batched(const struct rewriter *r, const struct node *n)
{
    const struct clcnn_shape *a = &r->g->values[n->in[0]].shape, *b = &r->g->values[n->in[1]].shape;
    bool same = a->rank == b->rank && a->rank >= 2;
    for (int i = 0; same && i < a->rank - 2; i++)
        same = a->dim[i] == b->dim[i] || (a->rank == 4 && i == 1 && b->dim[i] == 1);
    return same;
}

static bool find_parts(const struct rewriter *r, struct node *product, struct attention *a)
{
    if (product->dead || !rewrite_is(product, &op_matmul) || !is_batched(r, product))
        return false;
    struct node *n = rewrite_sole_producer(r, product->in[0]);
    *a = (struct attention){.product = product, .last = product, .scale = 1.0};
    while (n && keeps_matrices(r, n) && a->n_between < MOST_NODES) {
        a->between[a->n_between++] = n;
        n = rewrite_sole_producer(r, n->in[0]);
    }
    if (!n || !rewrite_is(n, &op_softmax))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape;
    a->softmax = n;
    return ((const struct dim_attrs *)n->attrs)->dim == x->rank - 1 && find_scores(r, n->in[0], a) &&
           is_batched(r, a->scores) && same_matrices(r, a->scores->out[0], n->in[0]);
}

/* Sizes of all axes; the heads are the third dimension from the end where there are four or more. */
static bool find_sizes(const struct rewriter *r, struct attention *a)
{
    const struct value *v = r->g->values;
    const struct clcnn_shape *q = &v[a->scores->in[0]].shape, *b = &v[a->product->in[1]].shape;
    const struct clcnn_shape *scores = &v[a->scores->out[0]].shape, *weights = &v[a->softmax->in[0]].shape;
    const struct clcnn_shape *heads = scores->rank >= 4 ? scores : weights->rank >= 4 ? weights : b;
    int64_t all = shape_count(scores) / scores->dim[scores->rank - 2] / scores->dim[scores->rank - 1];
    int32_t *size = a->attrs.size;
    size[1] = heads->rank > 2 ? heads->dim[heads->rank - 3] : 1;
    size[0] = (int32_t)(all / size[1]);
    size[2] = scores->dim[scores->rank - 2];
    size[3] = scores->dim[scores->rank - 1];
    size[4] = q->dim[q->rank - 1];
    size[5] = b->dim[b->rank - 1];
    return b->dim[b->rank - 2] == size[3] && size[4] <= ATTENTION_MOST_COLUMNS &&
           size[5] <= ATTENTION_MOST_COLUMNS;
}

/* ---- the node ------------------------------------------------------------------------------------------ */

static enum clcnn_status make_node(struct rewriter *r, const struct attention *a, int mask, int outer)
{
    char name[2 * CLCNN_NAME_MAX];
    const int inputs[] = {a->operand[Q].value, a->operand[K].value, a->operand[V].value, mask, outer};
    struct node *last = a->last;
    struct attention_attrs *attrs = clcnn_calloc(1, sizeof *attrs);
    int *in = clcnn_calloc(COUNT_OF(inputs), sizeof *in);
    snprintf(name, sizeof name, "%s+%s", a->scores->name, a->product->name);
    char *copy = clcnn_strdup(name);
    if (!attrs || !in || !copy) {
        free(attrs);
        free(in);
        free(copy);
        return clcnn_fail_mem(r->err, sizeof name);
    }
    *attrs = a->attrs;
    attrs->viewed = true;
    attrs->result = r->g->values[last->out[0]].shape;
    memcpy(in, inputs, sizeof inputs);
    free(last->in);
    free(last->attrs);
    free(last->name);
    last->in = in;
    last->n_in = COUNT_OF(inputs) - (outer < 0);
    last->attrs = attrs;
    last->name = copy;
    last->op = &op_scaled_dot_product_attention;
    last->dead = false;
    return CLCNN_OK;
}

/* A part whose algorithm the user forces keeps its own node: what it may have by the same name is another algorithm. */
static bool is_forced(const struct rewriter *r, const struct attention *a)
{
    return rewrite_is_overridden(r, a->scores) || rewrite_is_overridden(r, a->softmax) ||
           rewrite_is_overridden(r, a->product);
}

static enum clcnn_status merge_attention(struct rewriter *r, struct attention *a)
{
    enum clcnn_status st = CLCNN_OK;
    bool can = true;
    int mask, outer = -1;
    struct attention divided = *a;
    attention_divide_mask(r, &divided);
    if (attention_join_digits(r, &divided, &mask, &outer))
        *a = divided;
    else
        TRY(attention_join_masks(r, a, &can, &mask));
    if (!can)
        return CLCNN_OK;
    TRY(rewrite_note(r, "merge matmul %s, softmax %s and matmul %s into attention", a->scores->name,
                     a->softmax->name, a->product->name));
    for (struct node *n = a->product; n != a->last; n->dead = true)
        n = rewrite_sole_reader(r, n->out[0], n);
    a->scores->dead = a->softmax->dead = a->product->dead = true;
    for (int i = 0; i < a->n_between; i++)
        a->between[i]->dead = true;
    TRY(make_node(r, a, mask, outer));
    TRY(view_drop_unread(r, a->last));
done:
    return st;
}

enum clcnn_status rewrite_merge_attention(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct attention a;
        if (find_parts(r, &r->g->nodes[i], &a) && find_sizes(r, &a) && !is_forced(r, &a) &&
            attention_find_views(r, &a))
            TRY(merge_attention(r, &a));
    }
done:
    return st;
}
