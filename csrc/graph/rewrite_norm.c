/* rewrite_norm.c: a batch normalisation that no convolution before it could take (its input is a concat, say) and that a 1x1
 * convolution follows becomes a depthwise 1x1 convolution, so that the pair can be merged into one separable layer.
 *
 *   BN(x) = s x + (bias - s mean),  s = weight / sqrt(var + eps)   =>   one filter s and one bias for each channel
 */
#include "graph/rewrite.h"

#include <stdlib.h>

static bool normalises_map(const struct rewriter *r, const struct node *n)
{
    if (!n || !rewrite_is(n, &op_batch_norm) || n->epi.add >= 0)
        return false;
    if (!rewrite_norm_is_constant(r, n))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape;
    return x->rank == 4 && x->dim[1] > 1;
}

static void fill(const struct clcnn_graph *g, const struct node *bn, int w, int b)
{
    const float *beta = g->values[bn->in[2]].data, *mean = g->values[bn->in[3]].data;
    for (int32_t c = 0; c < g->values[b].shape.dim[0]; c++) {
        const double s = rewrite_norm_scale(g, bn, c);
        g->values[w].owned[c] = (float)s;
        g->values[b].owned[c] = (float)(beta[c] - s * mean[c]);
    }
}

static enum clcnn_status to_depthwise(struct rewriter *r, struct node *bn)
{
    enum clcnn_status st = CLCNN_OK;
    const int32_t channels = r->g->values[bn->in[0]].shape.dim[1];
    const struct clcnn_shape w_shape = {.rank = 4, .dim = {channels, 1, 1, 1}},
                             b_shape = {.rank = 1, .dim = {channels}};
    struct conv_attrs *a = clcnn_calloc(1, sizeof *a);
    int w = -1, b = -1;
    if (!a)
        return clcnn_fail_mem(r->err, sizeof *a);
    TRY(graph_owned_constant(r->g, &w_shape, &w, r->err));
    TRY(graph_owned_constant(r->g, &b_shape, &b, r->err));
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
    bn->op = &op_conv;
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
        TRY(to_depthwise(r, bn));
    }
done:
    return st;
}
