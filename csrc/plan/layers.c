/* layers.c: nodes become layers and steps: an algorithm is chosen for each and writes its steps, those of a sliced span once
 * for each batch slice (batch_slices.c). */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe_fused(char out[48], const struct node *n)
{
    const bool other = n->epi.add >= 0, act = n->epi.act != ACT_none;
    const char *const of_other = n->epi.times ? "mul" : "add", *const of_act = act_identifier(n->epi.act) +
                                                                               strlen("act_");
    snprintf(out, 48, "%s%s%s",
             !other                ? ""
             : n->epi.times && act ? of_act
                                   : of_other,
             other && act ? "+" : "",
             !act                    ? ""
             : n->epi.times && other ? of_other
                                     : of_act);
}

static struct layer *new_layer(struct emit *e, int node, const struct problem *p)
{
    struct blueprint *bp = e->bp;
    if (!clcnn_grow((void **)&bp->layers, &bp->cap_layers, bp->n_layers + 1, sizeof *bp->layers))
        return NULL;
    struct layer *l = &bp->layers[bp->n_layers];
    *l = (struct layer){.node = node,
                        .op = p->op,
                        .input = p->in[0].shape,
                        .output = p->out[0].shape,
                        .zeros = p->zeros,
                        .fp16 = p->in[0].fp16 || p->out[0].fp16};
    problem_key(l->key, p);
    e->layer_index = bp->n_layers++;
    return l;
}

/* Makes the layer of a problem and chooses its algorithm. */
static enum clcnn_status begin_layer(struct emit *e, const struct problem *p, int node, const char *fused,
                                     bool sub)
{
    struct layer *l = new_layer(e, node, p);
    if (!l)
        return clcnn_fail_mem(e->err, sizeof *l);
    l->sub = sub;
    snprintf(l->fused, sizeof l->fused, "%s", fused);
    return select_for_layer(e, sub ? NULL : &e->bp->graph->nodes[node], p, e->err);
}

/* Chooses, or finds what was chosen for other items of the batch, and emits for one problem; `e` describes the layer while its
 * algorithm writes. */
static enum clcnn_status emit_problem(struct emit *e, const struct problem *p, int node, const char *fused,
                                      bool sub)
{
    enum clcnn_status st = CLCNN_OK;
    const struct emit outer = *e; /* a sub-problem returns to its layer */
    e->op = p->op;
    if (e->again < 0) {
        TRY(begin_layer(e, p, node, fused, sub));
    } else {
        e->layer_index = e->again++;
        e->algo = e->bp->layers[e->layer_index].algo;
    }
    struct decision decision = e->bp->layers[e->layer_index].decision; /* layers move when parts are added */
    struct problem decided = *p;
    decided.decision = &decision;
    e->algo->emit(&decided, e);
    st = e->status;
done:
    e->op = outer.op;
    e->algo = outer.algo;
    e->layer_index = outer.layer_index;
    return st;
}

void emit_sub(struct emit *e, const struct problem *p)
{
    if (e->status != CLCNN_OK)
        return;
    e->status = emit_problem(e, p, e->bp->layers[e->layer_index].node, "", true);
}

/* What the whole layer is, whatever its parts. */
static enum clcnn_status describe_layer(struct layer *l, const struct blueprint *bp, const struct node *n,
                                        const struct operand *in, struct clcnn_err *err)
{
    struct infer shapes = {0};
    const enum clcnn_status st = graph_infer(bp->graph, n, &shapes, err);
    if (st == CLCNN_OK)
        l->macs = n->op->macs ? n->op->macs(&shapes) : 0.0;
    for (int i = 0; i < n->n_in; i++)
        if (in[i].constant)
            l->weight_bytes += shape_bytes(&in[i].shape);
    if (n->items) {
        l->input.dim[0] = bp->graph->values[n->in[0]].shape.dim[0];
        l->output.dim[0] = bp->graph->values[n->out[0]].shape.dim[0];
    }
    free((void *)shapes.in);
    return st;
}

/* The steps of a node, or of its batch slice `slice`; slices after the first one use its layers, the first of which is `layer`. */
static enum clcnn_status emit_node(struct emit *e, const struct value_views *views, int index, int slice,
                                   int layer)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node *n = &e->bp->graph->nodes[index];
    struct problem p;
    struct operand *ops = clcnn_calloc((size_t)(n->n_in + n->n_out), sizeof *ops);
    if (!ops)
        return clcnn_fail_mem(e->err, (size_t)(n->n_in + n->n_out) * sizeof *ops);
    TRY(node_problem(&p, ops, e, views, n, slice));
    char fused[48];
    describe_fused(fused, n);
    e->layer = n->name;
    e->again = slice > 0 ? layer : -1;
    TRY(emit_problem(e, &p, index, fused, false));
    if (slice == 0)
        TRY(describe_layer(&e->bp->layers[layer], e->bp, n, ops, e->err));
done:
    free(ops);
    return st;
}

/* The steps of all nodes, those of a sliced span once for each batch slice. first_layer: room for an index a node. */
static enum clcnn_status emit_nodes(struct emit *e, const struct value_views *views, int *first_layer)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_graph *g = e->bp->graph;
    const int placed = e->bp->n_storages;
    for (int first = 0, past, slices; first < g->n_nodes; first = past) {
        past = sliced_span_end(g, first, &slices);
        for (int slice = 0; slice < slices; slice++) {
            for (int i = 0; slice > 0 && i < placed; i++)
                e->slice_storage[i] = -1;
            for (int i = first; i < past; i++) {
                if (g->nodes[i].dead || views->skip[i])
                    continue;
                if (slice == 0)
                    first_layer[i] = e->bp->n_layers;
                TRY(emit_node(e, views, i, slice, first_layer[i]));
            }
        }
    }
done:
    return st;
}

static enum clcnn_status check_overrides(const struct emit *e, const struct clcnn_graph *original,
                                         struct clcnn_err *err)
{
    for (int i = 0; i < e->options->override_count; i++) {
        const char *layer = e->options->overrides[i].layer;
        if (e->override_used[i])
            continue;
        if (strcmp(layer, CLCNN_EVERY_LAYER) == 0)
            return clcnn_fail(err, CLCNN_E_UNSUPPORTED, "algorithm '%s' cannot be used for any layer here",
                              e->options->overrides[i].algo);
        for (int k = 0; k < original->n_nodes; k++)
            if (strcmp(original->nodes[k].name, layer) == 0)
                return clcnn_fail(
                    err, CLCNN_E_VALUE,
                    "layer '%s' (%s) has no algorithm of its own: it became part of another layer or a view",
                    layer, original->nodes[k].op->name);
        return clcnn_fail(err, CLCNN_E_VALUE,
                          "unknown layer '%s' in algorithms; the graph has %d layers, the first is '%s'",
                          layer, original->n_nodes, original->n_nodes ? original->nodes[0].name : "");
    }
    return CLCNN_OK;
}

enum clcnn_status emit_layers(struct blueprint *bp, const struct value_views *views,
                              const struct clcnn_plan_options *options, const struct clcnn_graph *original,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct emit e = {.bp = bp, .options = options, .only_if_view = VIEW_NONE, .err = err};
    int *first_layer = clcnn_calloc((size_t)bp->graph->n_nodes + 1, sizeof *first_layer);
    e.override_used = clcnn_calloc((size_t)options->override_count + 1, sizeof *e.override_used);
    e.slice_storage = clcnn_calloc((size_t)bp->n_storages + 1, sizeof *e.slice_storage);
    if (!e.override_used || !e.slice_storage || !first_layer) {
        st = clcnn_fail_mem(err, (size_t)bp->graph->n_nodes * sizeof *first_layer);
        goto done;
    }
    TRY(emit_nodes(&e, views, first_layer));
    TRY(check_overrides(&e, original, err));
done:
    free(first_layer);
    free(e.slice_storage);
    free(e.override_used);
    return st;
}
