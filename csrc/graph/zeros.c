/* zeros.c: what a caller knows of the zeros in the inputs of layers, noted on their nodes. */
#include "graph/graph.h"

/* Layers with weights, or products with a matrix that may be weights. */
static bool can_have_zeros(const struct node *n)
{
    return n->op == &op_conv || n->op == &op_linear || n->op == &op_gemm || n->op == &op_matmul;
}

static enum clcnn_status check(const struct clcnn_layer_zeros *l, struct clcnn_err *err)
{
    const struct {
        const char *what;
        float share;
    } rows[] = {{"element", l->zeros.element},
                {"channel", l->zeros.channel},
                {"block", l->zeros.block},
                {"window", l->zeros.window},
                {"tile", l->zeros.tile}};
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (!(rows[i].share >= 0.0f && rows[i].share <= 1.0f))
            return clcnn_fail(err, CLCNN_E_VALUE,
                              "zeros: layer '%s': the share %s must be from 0 to 1, got %g", l->layer,
                              rows[i].what, (double)rows[i].share);
    return CLCNN_OK;
}

enum clcnn_status graph_set_zeros(struct clcnn_graph *g, const struct clcnn_graph *named,
                                  const struct clcnn_layer_zeros *zeros, int count, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < count; i++) {
        const int at = map_get(&named->node_names, hash128_text(zeros[i].layer));
        if (at < 0)
            TRY(clcnn_fail(err, CLCNN_E_VALUE, "zeros: there is no layer '%s'", zeros[i].layer));
        struct node *n = &g->nodes[at];
        if (!can_have_zeros(n))
            TRY(clcnn_fail(err, CLCNN_E_VALUE,
                           "zeros: layer '%s' is a %s; they are told of conv, linear, gemm and matmul",
                           n->name, n->op->name));
        TRY(check(&zeros[i], err));
        n->zeros = zeros[i].zeros;
    }
done:
    return st;
}
