/* rewrite_parts.c: a linear layer whose columns are split becomes one layer for each part, so that nothing is copied and each
 * part takes what follows it into its epilogue (CPU devices).
 *
 *   split(linear(x, W, b))   =>   linear(x, rows of W, part of b), ...
 */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PADDING = 8 }; /* columns of zeros that parts may bring: one in so many */

/* Whether weights and bias are constants that no other layer uses: the parts take over their memory. */
static bool owns_weights(const struct rewriter *r, const struct node *n)
{
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] >= 0 && r->uses[n->in[k]] > 1)
            return false;
    return rewrite_weights_are_constant(r, n);
}

/* The linear layer that `split` takes apart column by column; NULL where it stays whole. Parts of a single row lie side by side:
 * they are views. */
static const struct node *layer_of(const struct rewriter *r, const struct node *split)
{
    const struct split_attrs *a = split->attrs;
    if (split->dead || !rewrite_is(split, &op_split) || rewrite_is_overridden(r, split))
        return NULL;
    const struct node *n = rewrite_sole_producer(r, split->in[0]);
    if (!n || !rewrite_is(n, &op_linear) || n->epi.add >= 0 || rewrite_is_overridden(r, n) ||
        !owns_weights(r, n))
        return NULL;
    const struct clcnn_shape *y = &r->g->values[split->in[0]].shape;
    const int32_t columns = y->dim[y->rank - 1], block = r->options->block;
    int64_t computed = 0;
    for (int i = 0; i < a->sizes.n; i++)
        computed += (a->sizes.v[i] + block - 1) / block * block;
    return a->dim == y->rank - 1 && shape_count(y) > columns && computed <= columns + columns / MOST_PADDING
               ? n
               : NULL;
}

/* Appends the layer of columns [first, first + count), which computes output `part` of node `split`. */
static enum clcnn_status append_part(struct rewriter *r, int layer, int split, int part, int32_t first,
                                     int32_t count)
{
    enum clcnn_status st = CLCNN_OK;
    char name[CLCNN_NAME_MAX + 16];
    const struct node *n = &r->g->nodes[layer];
    int in[3] = {n->in[0], -1, -1}, made = -1;
    snprintf(name, sizeof name, "%s:%d", n->name, part);
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] >= 0)
            TRY(graph_constant_rows(r->g, n->in[k], first, count, &in[k], r->err));
    TRY(graph_append(r->g, &op_linear, name, "", in, n->n_in, &made, r->err));
    struct node *appended = &r->g->nodes[r->g->n_nodes - 1], *from = &r->g->nodes[split];
    appended->epi = r->g->nodes[layer].epi;
    appended->zeros = r->g->nodes[layer].zeros;
    appended->out[0] = from->out[part];
    from->out[part] = made;
done:
    return st;
}

static enum clcnn_status take_apart(struct rewriter *r, int layer, int split)
{
    enum clcnn_status st = CLCNN_OK;
    const struct ints sizes = ((const struct split_attrs *)r->g->nodes[split].attrs)->sizes;
    TRY(rewrite_note(r, "take linear %s apart into the %d parts of split %s", r->g->nodes[layer].name,
                     sizes.n, r->g->nodes[split].name));
    for (int i = 0, first = 0; i < sizes.n; first += sizes.v[i++])
        TRY(append_part(r, layer, split, i, first, sizes.v[i]));
    r->g->nodes[layer].dead = r->g->nodes[split].dead = true;
done:
    return st;
}

enum clcnn_status rewrite_split_products(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    if (r->options->gpu || !r->options->block)
        return CLCNN_OK;
    for (int i = 0; i < places.nodes; i++) {
        const struct node *layer = layer_of(r, &r->g->nodes[i]);
        if (!layer)
            continue;
        TRY(take_apart(r, (int)(layer - r->g->nodes), i));
        TRY(places_add(r, &places, i));
    }
    TRY(places_take(r, &places));
done:
    free(places.of);
    return st;
}
