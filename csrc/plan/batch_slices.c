/* batch_slices.c: sliced spans: consecutive nodes that compute a few items of the batch at a time, all of them one slice after
 * the other. So the maps between them stay in a CPU's cache, where those of the whole batch would go to memory and come
 * back, and they need memory for a few items only, which every slice uses anew. */
#include "plan/plan.h"
#include "algos/cost/cost.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SLICES 64

/* Bytes of a node's maps and of its constants. */
struct traffic {
    size_t item, weights;
};

/* As it is found: nodes [first, past), of which `nodes` live; `between` more may follow. */
struct sliced_span {
    int first, past, nodes, between;
    int batch, items;  /* batch 0: none is open */
    size_t item_bytes; /* of the node that has most */
};

static bool is_concat(const struct node *n)
{
    return n->op->role == ROLE_CONCAT;
}

static bool is_map(const struct clcnn_graph *g, int value, int batch)
{
    const struct value *v = &g->values[value];
    return v->kind != VALUE_CONSTANT && v->shape.rank >= 3 && v->shape.dim[0] == batch;
}

/* Whether operands that are broadcast to each other, from the last dimension on, have an item of the batch for each one of the
 * result, or the same for all. */
static bool are_broadcast_by_item(const struct clcnn_graph *g, const struct node *n, int batch)
{
    const int rank = g->values[n->out[0]].shape.rank;
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0)
            continue;
        const struct value *v = &g->values[n->in[i]];
        const bool leading = v->shape.rank == rank;
        if (v->kind == VALUE_CONSTANT ? leading && v->shape.dim[0] != 1
                                      : !leading || !is_map(g, n->in[i], batch))
            return false;
    }
    return true;
}

/* Items of the batch that a node computes, if it can compute some of them by themselves; 0: it cannot. */
static int batch_of(const struct clcnn_graph *g, const struct node *n)
{
    const int batch = g->values[n->out[0]].shape.rank >= 3 ? g->values[n->out[0]].shape.dim[0] : 0;
    if (!n->op->by_item || (is_concat(n) && ((const struct dim_attrs *)n->attrs)->dim != 1) ||
        (n->epi.add >= 0 && !is_map(g, n->epi.add, batch)))
        return 0;
    if (eltwise_broadcasts(n->op))
        return are_broadcast_by_item(g, n, batch) ? batch : 0;
    for (int i = 0; i < n->n_in; i++) {
        const bool weights = i > 0 && !is_concat(n);
        if (weights ? n->in[i] >= 0 && g->values[n->in[i]].kind != VALUE_CONSTANT
                    : !is_map(g, n->in[i], batch))
            return 0;
    }
    return batch;
}

static struct traffic traffic_of(const struct clcnn_graph *g, const struct node *n, int batch)
{
    struct traffic t = {0, 0};
    for (int i = -1; i < n->n_in + n->n_out; i++) {
        const int value = i < 0 ? n->epi.add : i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (value < 0)
            continue;
        const size_t bytes = shape_bytes(&g->values[value].shape);
        if (g->values[value].kind == VALUE_CONSTANT)
            t.weights += bytes;
        else
            t.item += bytes / (size_t)batch;
    }
    return t;
}

/* The least divisor of the batch that is not below `least`. */
static int divisor(int batch, size_t least)
{
    for (int items = 1; items < batch; items++)
        if (batch % items == 0 && (size_t)items >= least && batch / items <= MOST_SLICES)
            return items;
    return batch;
}

static size_t cache_of(const struct blueprint *bp)
{
    const size_t told = (size_t)bp->dev->info.cache_bytes;
    return told > SLICE_LEAST_CACHE_BYTES ? told : SLICE_LEAST_CACHE_BYTES;
}

/* Whether a node's maps leave the cache when it computes the whole batch. */
static bool overflows(const struct blueprint *bp, const struct traffic *t, int batch)
{
    return t->item * (size_t)batch > cache_of(bp) / SLICE_CACHE_RATIO;
}

/* Items that a node should compute at a time at least. */
static int items_for(const struct blueprint *bp, const struct traffic *t, int batch)
{
    const size_t wanted = device_units(&bp->dev->info) * SLICE_UNIT_BYTES,
                 weights = SLICE_WEIGHT_RATIO * t->weights;
    return divisor(batch, ceil_div(wanted > weights ? wanted : weights, t->item));
}

/* Whether a node has one pixel a channel and few weights, as the gate of a map between two layers of it: it goes along at any number
 * of items. */
static bool is_little(const struct clcnn_graph *g, const struct node *n, const struct traffic *t)
{
    return shape_count_from(&g->values[n->in[0]].shape, 2) == 1 && t->weights <= SLICE_UNIT_BYTES;
}

/* One node gains nothing by itself. */
static enum clcnn_status close_span(struct blueprint *bp, struct sliced_span *s, struct clcnn_err *err)
{
    struct node *nodes = bp->graph->nodes;
    const int first = s->first, past = s->past;
    if (s->nodes < 2)
        return CLCNN_OK;
    for (int i = first; i < past; i++)
        nodes[i].items = nodes[i].dead ? 0 : s->items;
    s->nodes = 0;
    return notes_add(&bp->notes, err, "%s to %s: %d of %d items at a time", nodes[first].name,
                     nodes[past - 1].name, s->items, s->batch);
}

/* Whether a node can go on with the span, at as many items as both want, which must not leave the cache for that. */
static bool joins(struct sliced_span *s, int items, size_t item_bytes, size_t cache)
{
    const int most = items > s->items ? items : s->items; /* of two divisors: a divisor */
    const size_t bytes = item_bytes > s->item_bytes ? item_bytes : s->item_bytes;
    if (items != s->items && bytes * (size_t)most > cache / SLICE_CACHE_RATIO)
        return false;
    s->items = most;
    s->item_bytes = bytes;
    return true;
}

/* The next node, which can compute `items` items at a time. `wanted`: it should; others only go along between such nodes, if the
 * span computes enough items for them. */
static enum clcnn_status add_node(struct blueprint *bp, struct sliced_span *s, int index, int batch,
                                  int items, size_t item_bytes, bool wanted, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const bool open = s->batch == batch && items < batch;
    if (open && !wanted && items <= s->items) {
        s->between++;
        return CLCNN_OK;
    }
    if (!open || !wanted || !joins(s, items, item_bytes, cache_of(bp))) {
        TRY(close_span(bp, s, err));
        *s = (struct sliced_span){.first = index};
    }
    if (wanted && items < batch) {
        if (s->nodes == 0)
            *s = (struct sliced_span){index, index, 0, 0, batch, items, item_bytes};
        s->nodes += s->between + 1;
        s->between = 0;
        s->past = index + 1;
    }
done:
    return st;
}

/* Bytes of a node's maps for all items of the batch; 0: it cannot compute some items by themselves. */
static uint64_t whole_bytes(const struct clcnn_graph *g, const struct node *n)
{
    const int batch = n->dead ? 0 : batch_of(g, n);
    return batch > 0 ? traffic_of(g, n, batch).item * (uint64_t)batch : 0;
}

/* The first of the nodes at the end whose maps take at most so many bytes. */
static int tail_of(const struct clcnn_graph *g, uint64_t most)
{
    int tail = g->n_nodes;
    while (tail > 0 && whole_bytes(g, &g->nodes[tail - 1]) <= most)
        tail--;
    return tail;
}

uint64_t batch_slices_longer_tail(const struct clcnn_graph *g, uint64_t whole_below)
{
    const int tail = tail_of(g, whole_below);
    return tail > 0 ? whole_bytes(g, &g->nodes[tail - 1]) : 0;
}

enum clcnn_status blueprint_batch_slices(struct blueprint *bp, const struct clcnn_plan_options *options,
                                         struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_graph *g = bp->graph;
    const int part = options->batch_part;
    const bool by_rule = part == 0;
    struct sliced_span s = {0};
    if (part < 0)
        return clcnn_fail(err, CLCNN_E_VALUE, "batch_part=%d: expected 0 or more items of a batch", part);
    const int past = by_rule ? g->n_nodes : tail_of(g, options->frugal.whole_below);
    for (int i = 0; i < past && (!by_rule || device_traits(&bp->dev->info).channel_block); i++) {
        const struct node *n = &g->nodes[i];
        if (n->dead)
            continue;
        const int batch = batch_of(g, n);
        const struct traffic t = batch > 0 ? traffic_of(g, n, batch) : (struct traffic){0, 0};
        int items = by_rule || batch % part ? batch : part;
        if (by_rule && batch > 0)
            items = is_little(g, n, &t) ? 1 : items_for(bp, &t, batch);
        TRY(add_node(bp, &s, i, batch, items, t.item, !by_rule || overflows(bp, &t, batch), err));
    }
    TRY(close_span(bp, &s, err));
done:
    return st;
}

int sliced_span_end(const struct clcnn_graph *g, int first, int *slices)
{
    const struct node *n = &g->nodes[first];
    int past = first + 1;
    *slices = 1;
    if (n->items == 0)
        return past;
    const int batch = g->values[n->out[0]].shape.dim[0];
    *slices = batch / n->items;
    while (past < g->n_nodes &&
           (g->nodes[past].dead ||
            (g->nodes[past].items == n->items && g->values[g->nodes[past].out[0]].shape.dim[0] == batch)))
        past++;
    return past;
}

/* ---- values that only their span reads -------------------------------------------------------------- */

/* What a node reads of another span, or of none, holds all items. */
static void share_inputs(struct clcnn_graph *g, const int *span, int index)
{
    const struct node *n = &g->nodes[index];
    for (int i = -1; i < n->n_in; i++) {
        const int value = i < 0 ? n->epi.add : n->in[i];
        struct value *v = value < 0 ? NULL : &g->values[value];
        if (v && v->items && (n->items == 0 || span[v->producer] != span[index]))
            v->items = 0;
    }
}

/* A concat and what it joins may lie in one memory: all of them hold as many items. Tells whether that changed any. */
static bool join_values(struct clcnn_graph *g, const struct node *n)
{
    bool own = true, changed = false;
    if (n->dead || !n->items || !is_concat(n))
        return false;
    for (int i = 0; i <= n->n_in; i++)
        own = own && g->values[i < n->n_in ? n->in[i] : n->out[0]].items;
    for (int i = 0; !own && i <= n->n_in; i++) {
        struct value *v = &g->values[i < n->n_in ? n->in[i] : n->out[0]];
        changed = changed || v->items;
        v->items = 0;
    }
    return changed;
}

enum clcnn_status blueprint_private_values(struct blueprint *bp, struct clcnn_err *err)
{
    struct clcnn_graph *g = bp->graph;
    int *span = clcnn_calloc((size_t)g->n_nodes + 1, sizeof *span), slices;
    if (!span)
        return clcnn_fail_mem(err, (size_t)g->n_nodes * sizeof *span);
    for (int first = 0, past; first < g->n_nodes; first = past) {
        past = sliced_span_end(g, first, &slices);
        for (int i = first; i < past; i++) {
            span[i] = first;
            for (int k = 0; !g->nodes[i].dead && k < g->nodes[i].n_out; k++)
                g->values[g->nodes[i].out[k]].items = g->nodes[i].items;
        }
    }
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            share_inputs(g, span, i);
    for (int i = 0; i < g->n_outputs; i++)
        g->values[g->outputs[i].value].items = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = g->n_nodes - 1; i >= 0; i--)
            changed |= join_values(g, &g->nodes[i]);
        for (int i = 0; i < g->n_nodes; i++)
            changed |= join_values(g, &g->nodes[i]);
    }
    free(span);
    return CLCNN_OK;
}
