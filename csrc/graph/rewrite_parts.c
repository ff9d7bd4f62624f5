/* rewrite_parts.c: a linear layer whose columns are split becomes one layer for each part, so that nothing is copied and each
 * part takes what follows it into its epilogue.
 *
 *   split(linear(x, W, b))   =>   linear(x, rows of W, part of b), ...
 *
 * On CPU devices any split. On GPUs, where one launch more costs as much as a small copy: splits in two parts, as gates are (one
 * is multiplied by the other), and those of so many values that the copy takes longer. Slices that together take all columns are
 * a split, as some exporters write it.
 */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_PADDING = 8,        /* columns of zeros that parts may bring: one in so many */
    GPU_BLOCK = 64,          /* columns of a tile on GPUs */
    LAUNCH_VALUES = 2 << 20, /* values that a GPU copies while one more kernel of a product starts and ends */
};

/* ---- slices that are a split ------------------------------------------------------------------------------ */

/* The slice of `value` that begins with this column, and takes all of its rows; NULL: none. */
static struct node *slice_from(const struct rewriter *r, int value, int32_t column)
{
    const struct clcnn_shape *x = &r->g->values[value].shape;
    const int last = x->rank - 1;
    for (int i = r->g->values[value].producer + 1; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead || !rewrite_is(n, &op_slice) || n->in[0] != value || rewrite_is_overridden(r, n))
            continue;
        const struct slice_attrs *a = n->attrs;
        const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
        if (a->starts.v[last] == column && a->steps.v[last] == 1 &&
            shape_count(y) == shape_count(x) / x->dim[last] * y->dim[last])
            return n;
    }
    return NULL;
}

/* The split of `value` into slices that follow one another; false where there is more that reads it. */
static bool slices_split(const struct rewriter *r, int value, struct split_attrs *a, struct node **slices)
{
    const struct clcnn_shape *x = &r->g->values[value].shape;
    int32_t column = 0;
    *a = (struct split_attrs){.dim = x->rank - 1};
    while (column < x->dim[a->dim] && a->sizes.n < COUNT_OF(a->sizes.v)) {
        struct node *n = slice_from(r, value, column);
        if (!n)
            return false;
        a->sizes.v[a->sizes.n] = r->g->values[n->out[0]].shape.dim[a->dim];
        column += a->sizes.v[a->sizes.n];
        slices[a->sizes.n++] = n;
    }
    return column == x->dim[a->dim] && a->sizes.n > 1 && r->uses[value] == a->sizes.n;
}

static enum clcnn_status join_slices(struct rewriter *r, int value, const struct split_attrs *a,
                                     struct node **slices)
{
    enum clcnn_status st = CLCNN_OK;
    int made[COUNT_OF(a->sizes.v)], place[COUNT_OF(a->sizes.v)];
    for (int i = 0; i < a->sizes.n; i++)
        place[i] = (int)(slices[i] - r->g->nodes);
    TRY(rewrite_note(r, "take the %d slices from %s on as a split", (int)a->sizes.n, slices[0]->name));
    TRY(graph_append(r->g, &op_split, slices[0]->name, a, &value, 1, made, r->err));
    struct node *split = &r->g->nodes[r->g->n_nodes - 1];
    for (int i = 0; i < a->sizes.n; i++) {
        struct node *slice = &r->g->nodes[place[i]];
        split->out[i] = slice->out[0];
        slice->out[0] = made[i];
        slice->dead = true;
    }
done:
    return st;
}

enum clcnn_status rewrite_find_splits(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    for (int i = 0; i < places.nodes; i++) {
        const struct node *n = &r->g->nodes[i];
        struct split_attrs a;
        struct node *slices[COUNT_OF(a.sizes.v)];
        if (n->dead || !(rewrite_is(n, &op_linear) || eltwise_is_unary(n->op)) || r->uses[n->out[0]] < 2 ||
            r->g->values[n->out[0]].shape.rank == 0 || !slices_split(r, n->out[0], &a, slices))
            continue;
        TRY(join_slices(r, n->out[0], &a, slices));
        TRY(places_add(r, &places, i));
    }
    TRY(places_take(r, &places));
done:
    free(places.of);
    return st;
}

/* ---- layers that come apart ------------------------------------------------------------------------------- */

/* Whether weights and bias are constants that no other layer uses: the parts take over their memory. */
static bool owns_weights(const struct rewriter *r, const struct node *n)
{
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k] >= 0 && r->uses[n->in[k]] > 1)
            return false;
    return rewrite_weights_are_constant(r, n);
}

/* Whether the launches of a layer for each of these parts take less time than a copy of all `values`. */
static bool pays(const struct rewriter *r, int parts, int64_t values)
{
    return !r->options->gpu || parts <= 2 || values > (int64_t)(parts - 2) * LAUNCH_VALUES;
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
    const int32_t columns = y->dim[y->rank - 1], block = r->options->gpu ? GPU_BLOCK : r->options->block;
    int64_t computed = 0;
    for (int i = 0; i < a->sizes.n; i++)
        computed += (a->sizes.v[i] + block - 1) / block * block;
    return a->dim == y->rank - 1 && shape_count(y) > columns &&
                   computed <= columns + columns / MOST_PADDING && pays(r, a->sizes.n, shape_count(y))
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
    if (!r->options->gpu && !r->options->block)
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
