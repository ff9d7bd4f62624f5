/* rewrite_norm.c: a batch normalisation that no layer before it could take (its input is a concat, say).
 *
 *   BN(x) = s x + t,  s = weight / sqrt(var + eps),  t = bias - s mean
 *
 * Convolutions and linear layers that alone read its result take it:
 *
 *   w BN(x) + b   =>   w' = w s,  b' = b + the sum of w t over channels and taps
 *
 * One that is still there, since an activation follows it, and that a 1x1 convolution follows becomes a depthwise 1x1 convolution, so
 * that the pair can be merged into one separable layer: one filter s and one bias t for each channel. */
#include "graph/match.h"

#include <stdlib.h>

static bool is_constant_norm(const struct rewriter *r, const struct node *n)
{
    return n && rewrite_is(n, &op_batch_norm) && n->epi.add < 0 && rewrite_norm_is_constant(r, n);
}

/* ---- into the layers that read it ------------------------------------------------------------------------- */

enum { MOST_READERS = 4 }; /* each gets weights of its own */

struct readers {
    struct node *layer[MOST_READERS];
    int n;
};

/* Adds the layers behind `from`, which computes `value`: its readers, and those of a reshape of the norm that keeps items apart. False
 * unless all who want the value are such layers, and can take the norm. */
static bool add_readers(const struct rewriter *r, const struct node *bn, const struct rewrite_affine *a,
                        const struct node *from, struct readers *to)
{
    const int value = from->out[0];
    const struct clcnn_shape *x = &r->g->values[value].shape;
    struct node *n = NULL;
    for (int left = r->uses[value]; left > 0; left--) {
        n = rewrite_next_reader(r, value, n ? n : from);
        if (!n)
            return false;
        const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
        if (from == bn && rewrite_is_reshape(n)) {
            if (y->rank < 2 || y->dim[0] != x->dim[0] || !add_readers(r, bn, a, n, to))
                return false;
        } else if (to->n == MOST_READERS || !rewrite_takes_affine(r, n, a)) {
            return false;
        } else {
            to->layer[to->n++] = n;
        }
    }
    return true;
}

/* What bn does, its numbers in new memory. */
static enum clcnn_status affine_of(struct rewriter *r, const struct node *bn, double **numbers,
                                   struct rewrite_affine *a)
{
    const int32_t channels = r->g->values[bn->in[0]].shape.dim[1];
    double *to = clcnn_calloc(2 * (size_t)channels, sizeof *to);
    if (!to)
        return clcnn_fail_mem(r->err, 2 * (size_t)channels * sizeof *to);
    for (int32_t c = 0; c < channels; c++) {
        to[c] = rewrite_norm_scale(r->g, bn, c);
        to[channels + c] = rewrite_norm_shift(r->g, bn, c);
    }
    *a = (struct rewrite_affine){.channels = channels, .scale = to, .shift = to + channels};
    *numbers = to;
    return CLCNN_OK;
}

static enum clcnn_status fold_into(struct rewriter *r, struct node *bn, const struct rewrite_affine *a,
                                   const struct readers *to)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < to->n; i++) {
        TRY(rewrite_note(r, "fold batch_norm %s into %s %s, which reads it", bn->name, to->layer[i]->op->name,
                         to->layer[i]->name));
        TRY(rewrite_take_affine(r, to->layer[i], a));
    }
    while (r->uses[bn->out[0]] > 0)
        TRY(rewrite_set_input(r, rewrite_next_reader(r, bn->out[0], bn), 0, bn->in[0]));
    match_remove(r, bn);
done:
    return st;
}

enum clcnn_status rewrite_norm_into_readers(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    double *numbers = NULL;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *bn = &r->g->nodes[i];
        struct readers to = {.n = 0};
        struct rewrite_affine a;
        if (bn->dead || !is_constant_norm(r, bn) || bn->epi.act != ACT_none || rewrite_is_overridden(r, bn))
            continue;
        free(numbers);
        numbers = NULL;
        TRY(affine_of(r, bn, &numbers, &a));
        if (add_readers(r, bn, &a, bn, &to) && to.n > 0)
            TRY(fold_into(r, bn, &a, &to));
    }
done:
    free(numbers);
    return st;
}

/* ---- into a depthwise convolution ------------------------------------------------------------------------- */

static bool normalises_map(const struct rewriter *r, const struct node *n)
{
    if (!is_constant_norm(r, n))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape;
    return x->rank == 4 && x->dim[1] > 1;
}

static void fill(const struct clcnn_graph *g, const struct node *bn, int w, int b)
{
    for (int32_t c = 0; c < g->values[b].shape.dim[0]; c++) {
        g->values[w].owned[c] = (float)rewrite_norm_scale(g, bn, c);
        g->values[b].owned[c] = (float)rewrite_norm_shift(g, bn, c);
    }
}

enum clcnn_status rewrite_norm_as_depthwise(struct rewriter *r, struct node *bn, const struct op_def *op)
{
    enum clcnn_status st = CLCNN_OK;
    const int32_t channels = r->g->values[bn->in[0]].shape.dim[1];
    const struct clcnn_shape w_shape = {.rank = 4, .dim = {channels, 1, 1, 1}},
                             b_shape = {.rank = 1, .dim = {channels}};
    struct conv_attrs *a = clcnn_calloc(1, sizeof *a);
    int w = -1, b = -1;
    if (!a)
        return clcnn_fail_mem(r->err, sizeof *a);
    TRY(rewrite_constant(r, &w_shape, &w));
    TRY(rewrite_constant(r, &b_shape, &b));
    fill(r->g, bn, w, b);
    *a = (struct conv_attrs){
        .stride = {.n = 2, .v = {1, 1}},
        .padding = {.n = 4},
        .dilation = {.n = 2, .v = {1, 1}},
        .output_padding = {.n = 2},
        .groups = channels,
    };
    free(bn->attrs);
    bn->attrs = a;
    a = NULL;
    bn->op = op;
    bn->in[1] = w;
    bn->in[2] = b;
    bn->n_in = 3;
done:
    free(a);
    return st;
}

enum clcnn_status rewrite_norm_to_depthwise(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        const struct node *pw = &r->g->nodes[i];
        struct node *bn =
            pw->dead || !rewrite_is_pointwise(r, pw) ? NULL : rewrite_sole_producer(r, pw->in[0]);
        if (!normalises_map(r, bn) || rewrite_is_forced(r, bn, &op_separable) ||
            rewrite_is_forced(r, pw, &op_separable))
            continue;
        TRY(rewrite_note(r, "turn batch_norm %s before 1x1 conv %s into a depthwise conv", bn->name,
                         pw->name));
        TRY(rewrite_norm_as_depthwise(r, bn, &op_conv));
    }
done:
    return st;
}
