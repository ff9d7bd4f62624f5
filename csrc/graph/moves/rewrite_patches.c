/* rewrite_patches.c: a convolution of patches that lie side by side, deep ones of few channels, becomes a linear layer of patches.
 *
 *   conv(x[N][C][P r][Q s], stride = kernel = r x s)   =>   linear(rows[N][P Q][C r s]), turned to [N][K][P][Q]
 *
 * Vision transformers turn it back at once, and both moves fall away. Kernels of few channels hold the rows of the input under a
 * tile near them, which those of a patch of 32x32 do not fit; a matrix product reads its operands once. */
#include "graph/rewrite.h"

#include <stdlib.h>

enum {
    MOST_CHANNELS = 8, /* more of them fill channel blocks */
    DEEP_CPU = 1024,   /* elements of a patch: smaller ones are as fast as convolutions */
    DEEP_GPU = 512,
    MOST_DIMS = 3
};

struct patches {
    int n, depth, count;
    int32_t batch, channels, ker[MOST_DIMS], out[MOST_DIMS];
};

/* Whether n is such a convolution, with constant weights. */
static bool is_patches(const struct rewriter *r, const struct node *n, struct patches *p)
{
    if (n->dead || !rewrite_is(n, &op_conv) || rewrite_is_overridden(r, n) || n->epi.add >= 0 ||
        n->epi.act != ACT_none || !rewrite_weights_are_constant(r, n))
        return false;
    const struct conv_attrs *a = n->attrs;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *w = &r->g->values[n->in[1]].shape,
                             *y = &r->g->values[n->out[0]].shape;
    *p = (struct patches){
        .n = x->rank - 2, .depth = x->dim[1], .count = 1, .batch = x->dim[0], .channels = x->dim[1]};
    if (p->n > MOST_DIMS || a->groups != 1 || x->dim[1] > MOST_CHANNELS)
        return false;
    for (int d = 0; d < p->n; d++) {
        p->ker[d] = w->dim[2 + d];
        p->out[d] = y->dim[2 + d];
        p->depth *= p->ker[d];
        p->count *= p->out[d];
        if (a->stride.v[d] != p->ker[d] || a->padding.v[d] != 0 || a->padding.v[p->n + d] != 0 ||
            (a->dilation.v[d] != 1 && p->ker[d] != 1) || p->out[d] * p->ker[d] != x->dim[2 + d])
            return false;
    }
    return p->count > 1;
}

/* The patches of x as rows [N][P Q][C r s]. */
static enum clcnn_status rows_of(struct rewriter *r, const char *layer, const struct patches *p, int *value)
{
    enum clcnn_status st = CLCNN_OK;
    struct shape_attrs apart = {.shape = {.n = 2 + 2 * p->n, .v = {p->batch, p->channels}}};
    struct axes_attrs order = {.axes = {.n = 2 + 2 * p->n}};
    order.axes.v[1 + p->n] = 1;
    for (int d = 0; d < p->n; d++) {
        apart.shape.v[2 + 2 * d] = p->out[d];
        apart.shape.v[3 + 2 * d] = p->ker[d];
        order.axes.v[1 + d] = 2 + 2 * d;
        order.axes.v[2 + p->n + d] = 3 + 2 * d;
    }
    const struct shape_attrs rows = {.shape = {.n = 3, .v = {p->batch, p->count, p->depth}}};
    TRY(rewrite_append(r, &op_reshape, layer, "apart", &apart, value));
    TRY(rewrite_append(r, &op_transpose, layer, "order", &order, value));
    TRY(rewrite_append(r, &op_reshape, layer, "rows", &rows, value));
done:
    return st;
}

/* Appends what computes node i's output. */
static enum clcnn_status to_linear(struct rewriter *r, int i, const struct patches *p)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node conv = r->g->nodes[i];
    const struct clcnn_shape y = r->g->values[conv.out[0]].shape;
    const struct clcnn_shape w = {
        .rank = 2, .dtype = r->g->values[conv.in[1]].shape.dtype, .dim = {y.dim[1], p->depth}};
    const struct axes_attrs turn = {.axes = {.n = 3, .v = {0, 2, 1}}};
    struct shape_attrs whole = {.shape = {.n = y.rank}};
    int in[3] = {conv.in[0], conv.in[1], conv.n_in > 2 ? conv.in[2] : -1}, value = -1;
    for (int d = 0; d < y.rank; d++)
        whole.shape.v[d] = y.dim[d];

    TRY(rewrite_note(r, "turn conv %s of patches side by side into a linear layer", conv.name));
    TRY(rewrite_reshaped(r, &in[1], &w));
    TRY(rows_of(r, conv.name, p, &in[0]));
    TRY(graph_append(r->g, &op_linear, conv.name, "", in, 3, &value, r->err));
    TRY(rewrite_append(r, &op_transpose, conv.name, "turn", &turn, &value));
    TRY(rewrite_append(r, &op_reshape, conv.name, "whole", &whole, &value));
    struct node *last = &r->g->nodes[r->g->n_nodes - 1], *from = &r->g->nodes[i];
    last->out[0] = conv.out[0];
    from->out[0] = value;
    from->dead = true;
done:
    return st;
}

/* Whether other layers are products of rows that stay such. */
static bool has_rows(const struct rewriter *r)
{
    for (int i = 0; i < r->g->n_nodes; i++) {
        const struct node *n = &r->g->nodes[i];
        if (!n->dead && rewrite_is(n, &op_linear) && r->g->values[n->in[0]].shape.rank > 2)
            return true;
    }
    return false;
}

enum clcnn_status rewrite_patches_to_rows(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    struct patches p;
    /* where few kernels are wanted, one that is there anyway is better than the best one */
    const int least = r->options->quick && has_rows(r) ? 1 : r->options->gpu ? DEEP_GPU : DEEP_CPU;
    for (int i = 0; i < places.nodes; i++) {
        if (!is_patches(r, &r->g->nodes[i], &p) || p.depth < least)
            continue;
        TRY(to_linear(r, i, &p));
        TRY(places_add(r, &places, i));
        TRY(rewrite_count_anew(r)); /* the next one may share its weights */
    }
    TRY(places_take(r, &places));
done:
    free(places.of);
    return st;
}
