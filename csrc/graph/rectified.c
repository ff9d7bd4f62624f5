/* rectified.c: which values come out of a ReLU, and have kept its zeros on the way: they are worth looking for. */
#include "graph/graph.h"

/* relu, relu6 and clips at 0 */
static bool gives_zeros(enum act act, float p0, float p1)
{
    return act_as_clip(act, &p0, &p1) == ACT_clip && p0 == 0.0f && p1 > 0.0f;
}

static bool keeps_zeros(const struct node *n)
{
    static const struct op_def *const moves[] = {
        &op_max_pool, &op_adaptive_max_pool, &op_concat,    &op_split,     &op_slice,
        &op_reshape,  &op_flatten,           &op_squeeze,   &op_unsqueeze, &op_dropout,
        &op_identity, &op_reorder,           &op_transpose,
    };
    for (int i = 0; i < COUNT_OF(moves); i++)
        if (n->op == moves[i])
            return true;
    const struct pad_attrs *pad = n->op == &op_pad ? n->attrs : NULL;
    return pad && (pad->mode != 0 || pad->value == 0.0f);
}

static bool all_inputs_are_rectified(const struct clcnn_graph *g, const struct node *n)
{
    bool all = n->n_in > 0;
    for (int i = 0; all && i < n->n_in; i++)
        all = n->in[i] >= 0 && g->values[n->in[i]].rectified;
    return all;
}

static bool is_rectified(const struct clcnn_graph *g, const struct node *n)
{
    enum act act = n->epi.act;
    float p0 = n->epi.p0, p1 = n->epi.p1;
    const struct norm_train_attrs *norm = n->op == &op_batch_norm_train ? n->attrs : NULL;
    const struct conv_pool_attrs *pooled = n->op == &op_conv_pool ? n->attrs : NULL;
    const struct elementwise_attrs *joined = n->op == &op_elementwise ? n->attrs : NULL;
    if (pooled && pooled->average)
        return false;
    if (joined) {
        const struct elementwise_part *last = &joined->part[joined->n - 1];
        return act_of_op(last->op, &last->attrs, &act, &p0, &p1) && gives_zeros(act, p0, p1);
    }
    if (norm && act == ACT_none)
        return norm->low == 0.0f && n->epi.add < 0;
    if (act != ACT_none || act_of_op(n->op, n->attrs, &act, &p0, &p1))
        return gives_zeros(act, p0, p1);
    return keeps_zeros(n) && all_inputs_are_rectified(g, n);
}

void graph_note_rectified(struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            for (int o = 0; o < g->nodes[i].n_out; o++)
                g->values[g->nodes[i].out[o]].rectified = is_rectified(g, &g->nodes[i]);
}

bool graph_is_rectified(const struct clcnn_graph *g, int value)
{
    while (g->values[value].producer >= 0 && g->nodes[g->values[value].producer].op == &op_reorder)
        value = g->nodes[g->values[value].producer].in[0];
    return g->values[value].rectified;
}
