/* rewrite_merge.c: two layers become one of a merged operator, which an algorithm may compute without storing
 * what lies between: a depthwise and the 1x1 convolution after it, a convolution and the pooling after it. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Turns `last` into a node of the merged op, named after both, which keeps last's output; `first` is gone.
 * attrs is taken over, also when this fails. */
static enum clcnn_status merge(struct rewriter *r, struct node *first, struct node *last,
                               const struct op_def *op, void *attrs, const int *inputs, int n_in)
{
    char name[2 * CLCNN_NAME_MAX];
    snprintf(name, sizeof name, "%s+%s", first->name, last->name);
    int *in = clcnn_calloc((size_t)n_in, sizeof *in);
    struct merged *parts = clcnn_calloc(1, sizeof *parts);
    char *copy = clcnn_strdup(name);
    if (!attrs || !in || !copy || !parts) {
        free(attrs);
        free(in);
        free(copy);
        free(parts);
        return clcnn_fail_mem(r->err, sizeof name);
    }
    memcpy(in, inputs, (size_t)n_in * sizeof *in);
    *parts = (struct merged){(int)(first - r->g->nodes), *last};
    last->merged = parts;
    last->in = in;
    last->n_in = n_in;
    last->attrs = attrs;
    last->name = copy;
    last->op = op;
    last->zeros = first->zeros;
    first->dead = true;
    return CLCNN_OK;
}

void graph_take_apart(struct clcnn_graph *g, struct node *merged)
{
    struct merged *parts = merged->merged;
    struct node *first = &g->nodes[parts->first];
    /* as rewrites since then have left them: those of the first, then what else the last one reads */
    memcpy(first->in, merged->in, (size_t)first->n_in * sizeof *first->in);
    memcpy(parts->last.in + 1, merged->in + first->n_in,
           (size_t)(merged->n_in - first->n_in) * sizeof *first->in);
    free(merged->name);
    free(merged->attrs);
    free(merged->in);
    *merged = parts->last;
    first->dead = false;
    free(parts);
}

static bool is_depthwise(const struct rewriter *r, const struct node *n)
{
    if (!n || !rewrite_is(n, &op_conv) || n->epi.add >= 0)
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *w = &r->g->values[n->in[1]].shape;
    const struct conv_attrs *a = n->attrs;
    return x->rank == 4 && a->groups > 1 && a->groups == x->dim[1] && w->dim[0] == x->dim[1];
}

bool rewrite_is_pointwise(const struct rewriter *r, const struct node *n)
{
    if (!rewrite_is(n, &op_conv))
        return false;
    const struct clcnn_shape *w = &r->g->values[n->in[1]].shape;
    const struct conv_attrs *a = n->attrs;
    return w->rank == 4 && a->groups == 1 && shape_count_from(w, 2) == 1 &&
           rewrite_all_equal(&a->stride, 1) && rewrite_all_equal(&a->padding, 0);
}

static enum clcnn_status merge_separable(struct rewriter *r, struct node *dw, struct node *pw)
{
    const int inputs[] = {dw->in[0], dw->in[1], dw->in[2], pw->in[1], pw->in[2]};
    struct separable_attrs *a = clcnn_calloc(1, sizeof *a);
    if (a)
        *a = (struct separable_attrs){
            .dw = *(const struct conv_attrs *)dw->attrs,
            .mid_act = dw->epi.act,
            .mid_p0 = dw->epi.p0,
            .mid_p1 = dw->epi.p1,
            .dw_bias = dw->in[2] >= 0,
            .pw_bias = pw->in[2] >= 0,
        };
    return merge(r, dw, pw, &op_separable, a, inputs, COUNT_OF(inputs));
}

enum clcnn_status rewrite_merge_separable(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *pw = &r->g->nodes[i];
        if (pw->dead || !rewrite_is_pointwise(r, pw))
            continue;
        struct node *dw = rewrite_sole_producer(r, pw->in[0]);
        if (!is_depthwise(r, dw) || rewrite_is_forced(r, dw, &op_separable) ||
            rewrite_is_forced(r, pw, &op_separable))
            continue;
        TRY(rewrite_note(r, "merge depthwise conv %s and 1x1 conv %s", dw->name, pw->name));
        TRY(merge_separable(r, dw, pw));
    }
done:
    return st;
}

static enum clcnn_status merge_inverted(struct rewriter *r, struct node *expand, struct node *tail)
{
    const int inputs[] = {expand->in[0], expand->in[1], expand->in[2], tail->in[1],
                          tail->in[2],   tail->in[3],   tail->in[4]};
    struct inverted_residual_attrs *a = clcnn_calloc(1, sizeof *a);
    if (a)
        *a = (struct inverted_residual_attrs){
            .expand_act = expand->epi.act,
            .expand_p0 = expand->epi.p0,
            .expand_p1 = expand->epi.p1,
            .tail = *(const struct separable_attrs *)tail->attrs,
        };
    return merge(r, expand, tail, &op_inverted_residual, a, inputs, COUNT_OF(inputs));
}

/* On devices with channel blocks, whose cores keep rows of the wide map in their caches: elsewhere nothing computes it in one. */
enum clcnn_status rewrite_merge_inverted_residual(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes && r->options->block; i++) {
        struct node *tail = &r->g->nodes[i];
        if (tail->dead || !rewrite_is(tail, &op_separable) || !tail->merged)
            continue;
        struct node *expand = rewrite_sole_producer(r, tail->in[0]);
        if (!expand || !rewrite_is_pointwise(r, expand) || expand->epi.add >= 0 ||
            rewrite_is_forced(r, expand, &op_inverted_residual) ||
            rewrite_is_forced(r, tail, &op_inverted_residual))
            continue;
        TRY(rewrite_note(r, "merge 1x1 conv %s and %s", expand->name, tail->name));
        TRY(merge_inverted(r, expand, tail));
    }
done:
    return st;
}

#define MAX_WINDOW 3 /* along either side: what the fused kernels hold in registers */

/* Windows of 2-D maps without holes that are small. */
static bool pools_small(const struct rewriter *r, const struct node *n)
{
    if (!rewrite_is(n, &op_max_pool) && !rewrite_is(n, &op_avg_pool))
        return false;
    const struct pool_attrs *a = n->attrs;
    return r->g->values[n->in[0]].shape.rank == 4 && rewrite_all_equal(&a->dilation, 1) &&
           a->kernel_size.v[0] <= MAX_WINDOW && a->kernel_size.v[1] <= MAX_WINDOW;
}

/* Such windows side by side inside the input. */
static bool pools_tiles(const struct rewriter *r, const struct node *n)
{
    return pools_small(r, n) &&
           pool_side_by_side(n->attrs, &r->g->values[n->in[0]].shape, &r->g->values[n->out[0]].shape);
}

#define STEM_CHANNELS 4 /* of an image, at most */

/* The maximum of such windows, however they lie, of what the first convolution of a net makes: on devices with channel blocks
 * that is computed row by row (conv_pool_stem). */
static bool pools_stem(const struct rewriter *r, const struct node *conv, const struct node *n)
{
    return r->options->block && pools_small(r, n) && rewrite_is(n, &op_max_pool) &&
           r->g->values[conv->in[0]].shape.dim[1] <= STEM_CHANNELS &&
           ((const struct conv_attrs *)conv->attrs)->groups == 1;
}

/* Exchanges what two nodes compute; each keeps its place and its outputs. */
static void exchange(struct node *a, struct node *b)
{
    const struct node was = *a;
    int *const a_out = a->out, *const b_out = b->out;
    *a = *b;
    *b = was;
    a->out = a_out;
    b->out = b_out;
}

/* A mean of windows and a 1x1 convolution without an activation are both linear and act on other dimensions, so the mean may
 * come first: the convolution then has fewer pixels (the transitions of DenseNet: a quarter). */
enum clcnn_status rewrite_pool_before_pointwise(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_graph *g = r->g;
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *pool = &g->nodes[i];
        if (pool->dead || !rewrite_is(pool, &op_avg_pool) || !pools_tiles(r, pool) || pool->epi.add >= 0)
            continue;
        struct node *conv = rewrite_sole_producer(r, pool->in[0]);
        if (!conv || !rewrite_is_pointwise(r, conv) || conv->epi.add >= 0 || conv->epi.act != ACT_none ||
            rewrite_is_forced(r, conv, &op_conv_pool) || rewrite_is_forced(r, pool, &op_conv_pool))
            continue;
        TRY(rewrite_note(r, "pool %s before 1x1 conv %s", pool->name, conv->name));
        const int x = conv->in[0], between = conv->out[0];
        exchange(conv, pool); /* conv is the pooling now, and the earlier one */
        conv->in[0] = x;
        pool->in[0] = between;
        pool->zeros = (struct clcnn_zeros){0}; /* means are zero more seldom */
        const int32_t channels = g->values[x].shape.dim[1];
        g->values[between].shape = g->values[pool->out[0]].shape;
        g->values[between].shape.dim[1] = channels;
    }
done:
    return st;
}

/* The pooling comes after the convolution's epilogue, so the node carries both. */
static enum clcnn_status merge_conv_pool(struct rewriter *r, struct node *conv, struct node *pool)
{
    const struct clcnn_shape *middle = &r->g->values[conv->out[0]].shape;
    struct conv_pool_attrs *a = clcnn_calloc(1, sizeof *a);
    if (a)
        *a = (struct conv_pool_attrs){
            .conv = *(const struct conv_attrs *)conv->attrs,
            .pool = *(const struct pool_attrs *)pool->attrs,
            .average = rewrite_is(pool, &op_avg_pool),
            .middle = {.n = 2, .v = {middle->dim[2], middle->dim[3]}},
        };
    const enum clcnn_status st = merge(r, conv, pool, &op_conv_pool, a, conv->in, conv->n_in);
    if (st == CLCNN_OK)
        pool->epi = conv->epi;
    return st;
}

enum clcnn_status rewrite_merge_conv_pool(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *pool = &r->g->nodes[i];
        if (pool->dead || !pools_small(r, pool))
            continue;
        struct node *conv = rewrite_sole_producer(r, pool->in[0]);
        if (!conv || !rewrite_is(conv, &op_conv) || !(pools_tiles(r, pool) || pools_stem(r, conv, pool)) ||
            rewrite_is_forced(r, conv, &op_conv_pool) || rewrite_is_forced(r, pool, &op_conv_pool))
            continue;
        TRY(rewrite_note(r, "merge conv %s and %s %s", conv->name, pool->op->name, pool->name));
        TRY(merge_conv_pool(r, conv, pool));
    }
done:
    return st;
}
