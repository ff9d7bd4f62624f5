/* grad.c: the way back from a loss to the values whose gradients are wanted, node by node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grad/grad.h"

/* ---- the table --------------------------------------------------------------------------------------------- */

static const struct {
    const struct op_def *op;
    grad_rule *rule; /* NULL: none that could help */
    bool not_yet;
} table[] = {
#define GRAD(name, how) {.op = &op_##name, .rule = grad_##how},
#define NOT_YET(name) {.op = &op_##name, .not_yet = true},
#define NONE(name) {.op = &op_##name},
#include "grad/gradients.def"
#undef GRAD
#undef NOT_YET
#undef NONE
};

static int row_of(const struct op_def *op)
{
    int row = 0;

    while (row < COUNT_OF(table) && table[row].op != op)
        row++;
    return row;
}

/* ---- the way ----------------------------------------------------------------------------------------------- */

struct walk {
    struct clcnn_graph *graph;
    int *dy;       /* of each value that there was at the beginning: its gradient so far, -1: none */
    bool *reached; /* whether it depends on a wanted one */
    int loss, n_nodes, n_values;
    struct clcnn_err *err;
};

/* Whether a wanted value goes into the node, and a gradient may come back by this input. */
static bool input_reached(const struct walk *w, const struct node *n, int i)
{
    return n->in[i] >= 0 && w->reached[n->in[i]];
}

static bool any_reached(const struct walk *w, const struct node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        if (input_reached(w, n, i))
            return true;
    }
    return false;
}

static void mark(struct walk *w, const int *wrt, int count)
{
    memset(w->reached, 0, (size_t)w->n_values * sizeof *w->reached);
    for (int i = 0; i < count; i++)
        w->reached[wrt[i]] = true;
    for (int k = 0; k < w->n_nodes; k++) {
        const struct node *n = &w->graph->nodes[k];
        if (n->dead || !any_reached(w, n))
            continue;
        for (int i = 0; i < n->n_out; i++)
            w->reached[n->out[i]] = true;
    }
}

/* One more use of a value: gradients add up. */
static void collect(struct walk *w, struct grad *g, int value, int gradient)
{
    const struct value *v = &w->graph->values[value];
    const char *name = v->producer >= 0 ? w->graph->nodes[v->producer].name : v->name ? v->name : "value";

    snprintf(g->label, sizeof g->label, "%.200s:dy", name);
    w->dy[value] = w->dy[value] < 0 ? gradient : grad_together(g, w->dy[value], gradient);
}

static enum clcnn_status run_rule(struct walk *w, struct grad *g)
{
    const struct node *n = &g->node;
    const int row = row_of(n->op);

    if (row == COUNT_OF(table) || table[row].not_yet) {
        return clcnn_fail(w->err, CLCNN_E_UNSUPPORTED,
                          "%s %s: the gradient of this operator is not offered yet", n->op->name, n->name);
    }
    if (!table[row].rule)
        return CLCNN_OK;
    table[row].rule(g);
    for (int i = 0; g->st == CLCNN_OK && i < n->n_in; i++) {
        if (g->wanted[i] && g->dx[i] >= 0)
            collect(w, g, n->in[i], g->dx[i]);
    }
    return g->st;
}

/* The gradients of a node's inputs, if any of its outputs has one. */
static enum clcnn_status step_back(struct walk *w, struct grad *g, int k)
{
    enum clcnn_status st = CLCNN_OK;
    bool arrived = false, any = false;

    g->node = w->graph->nodes[k];
    const struct node *n = &g->node;
    for (int i = 0; i < n->n_out; i++) {
        g->dy[i] = w->dy[n->out[i]];
        arrived |= g->dy[i] >= 0;
    }
    if (n->dead || !arrived)
        return CLCNN_OK;
    bool *wanted = clcnn_calloc((size_t)n->n_in + 1, sizeof *wanted);
    g->dx = clcnn_calloc((size_t)n->n_in + 1, sizeof *g->dx);
    if (!wanted || !g->dx)
        TRY(clcnn_fail_mem(w->err, (size_t)n->n_in * sizeof *g->dx));
    for (int i = 0; i < n->n_in; i++) {
        wanted[i] = input_reached(w, n, i) && w->graph->values[n->in[i]].shape.dtype == CLCNN_FLOAT32;
        g->dx[i] = -1;
        any |= wanted[i];
    }
    g->wanted = wanted;
    if (any)
        TRY(run_rule(w, g));
done:
    free(wanted);
    free(g->dx);
    return st;
}

/* What rules are given in a walk that has met no value yet; NULL where memory is out. */
static struct grad *begin_walk(struct walk *w)
{
    struct grad *g = clcnn_calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->graph = w->graph;
    g->err = w->err;
    for (int i = 0; i < w->n_values; i++)
        w->dy[i] = -1;
    return g;
}

static enum clcnn_status walk_back(struct walk *w)
{
    enum clcnn_status st = CLCNN_OK;
    struct grad *g = begin_walk(w);

    if (!g)
        return clcnn_fail_mem(w->err, sizeof *g);
    snprintf(g->label, sizeof g->label, "loss:dy");
    const struct clcnn_shape one = w->graph->values[w->loss].shape;
    float *seed = grad_constant(g, &one, &w->dy[w->loss]);
    if (seed)
        *seed = 1.0f;
    TRY(g->st);
    for (int k = w->n_nodes - 1; k >= 0; k--)
        TRY(step_back(w, g, k));
done:
    map_free(&g->made);
    free(g);
    return st;
}

/* The same for a value that a rule has built out of ordinary nodes, from node `first` on. */
static enum clcnn_status walk_part(struct walk *w, struct grad *outer, int first, int y, int dy)
{
    enum clcnn_status st = CLCNN_OK;
    struct grad *g = begin_walk(w);

    if (!g)
        return clcnn_fail_mem(w->err, sizeof *g);
    g->made = outer->made; /* one list of names */
    w->dy[y] = dy;
    for (int k = w->n_nodes - 1; st == CLCNN_OK && k >= first; k--)
        st = step_back(w, g, k);
    outer->made = g->made;
    free(g);
    return st;
}

void grad_through(struct grad *g, int first, int y, int dy, const int *wrt, int count, int *dx)
{
    struct walk w = {
        .graph = g->graph, .n_nodes = g->graph->n_nodes, .n_values = g->graph->n_values, .err = g->err};

    for (int i = 0; i < count; i++)
        dx[i] = -1;
    if (g->st != CLCNN_OK)
        return;
    w.dy = clcnn_calloc((size_t)w.n_values, sizeof *w.dy);
    w.reached = clcnn_calloc((size_t)w.n_values, sizeof *w.reached);
    if (!w.dy || !w.reached) {
        g->st = clcnn_fail_mem(g->err, (size_t)w.n_values * sizeof *w.dy);
    } else {
        mark(&w, wrt, count);
        g->st = walk_part(&w, g, first, y, dy);
    }
    for (int i = 0; g->st == CLCNN_OK && i < count; i++)
        dx[i] = w.dy[wrt[i]];
    free(w.dy);
    free(w.reached);
}

/* ---- what did not come back --------------------------------------------------------------------------------- */

/* Notes by dy which values the loss depends on: 0, or -1. */
static void mark_loss(struct walk *w)
{
    for (int i = 0; i < w->n_values; i++)
        w->dy[i] = i == w->loss ? 0 : -1;
    for (int k = w->n_nodes - 1; k >= 0; k--) {
        const struct node *n = &w->graph->nodes[k];
        bool leads = false;
        for (int i = 0; i < n->n_out; i++)
            leads |= !n->dead && w->dy[n->out[i]] >= 0;
        for (int i = 0; leads && i < n->n_in; i++) {
            if (n->in[i] >= 0)
                w->dy[n->in[i]] = 0;
        }
    }
}

/* Whether the node lets no gradient through, and the loss depends on it. */
static bool stops(const struct walk *w, const struct node *n)
{
    const int row = row_of(n->op);
    bool leads = false;

    for (int i = 0; i < n->n_out; i++)
        leads |= w->dy[n->out[i]] >= 0;
    return leads && (row == COUNT_OF(table) || !table[row].rule ||
                     w->graph->values[n->out[0]].shape.dtype != CLCNN_FLOAT32);
}

/* Where the loss depends on a value, but no gradient came back to it: the first operator that lets none through. This ends
 * the walk: gradients have been taken out of it. */
static enum clcnn_status check_reached(struct walk *w, int wrt)
{
    mark(w, &wrt, 1);
    if (!w->reached[w->loss])
        return CLCNN_OK;
    mark_loss(w);
    for (int k = 0; k < w->n_nodes; k++) {
        const struct node *n = &w->graph->nodes[k];
        if (n->dead || !any_reached(w, n) || !stops(w, n))
            continue;
        return clcnn_fail(
            w->err, CLCNN_E_UNSUPPORTED,
            "%s %s: this operator has no gradient, and the loss depends on value %d by way of it alone",
            n->op->name, n->name, wrt);
    }
    return CLCNN_OK;
}

/* ---- from outside ------------------------------------------------------------------------------------------- */

static enum clcnn_status check_float(const struct clcnn_graph *g, const char *what, int value,
                                     struct clcnn_err *err)
{
    struct clcnn_shape shape;
    const enum clcnn_status st = clcnn_graph_value_shape(g, value, &shape, err);

    if (st != CLCNN_OK || shape.dtype == CLCNN_FLOAT32)
        return st;
    return clcnn_fail(err, CLCNN_E_DTYPE, "gradients: %s must be float32, but value %d is %s", what, value,
                      clcnn_dtype_name(shape.dtype));
}

static enum clcnn_status check_asked(const struct clcnn_graph *g, int loss, const int *wrt, int count,
                                     struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(check_float(g, "the loss", loss, err));
    const struct clcnn_shape *shape = &g->values[loss].shape;
    if (shape_count(shape) != 1) {
        TRY(clcnn_fail(err, CLCNN_E_SHAPE, "gradients: the loss must have one element, not shape %s",
                       shape_text(shape, (char[96]){0})));
    }
    for (int i = 0; i < count; i++)
        TRY(check_float(g, "what gradients are wanted of", wrt[i], err));
done:
    return st;
}

enum clcnn_status clcnn_graph_gradients(struct clcnn_graph *graph, int loss, const int *wrt, int count,
                                        int *grads, struct clcnn_err *err)
{
    enum clcnn_status st;
    struct walk w = {
        .graph = graph, .loss = loss, .n_nodes = graph->n_nodes, .n_values = graph->n_values, .err = err};

    TRY(check_asked(graph, loss, wrt, count, err));
    w.dy = clcnn_calloc((size_t)w.n_values, sizeof *w.dy);
    w.reached = clcnn_calloc((size_t)w.n_values, sizeof *w.reached);
    if (!w.dy || !w.reached)
        TRY(clcnn_fail_mem(err, (size_t)w.n_values * sizeof *w.dy));
    mark(&w, wrt, count);
    TRY(walk_back(&w));
    for (int i = 0; i < count; i++)
        grads[i] = w.dy[wrt[i]];
    for (int i = 0; i < count; i++) {
        if (grads[i] < 0)
            TRY(check_reached(&w, wrt[i]));
    }
    TRY(graph_keep_names(graph, w.n_nodes, err));
done:
    if (st != CLCNN_OK)
        graph_take_back(graph, w.n_nodes, w.n_values);
    free(w.dy);
    free(w.reached);
    return st;
}
