/* node.c: a node into a graph: names and number of inputs, attributes, shapes; and a copy of a graph. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph_private.h"

/* ---- inputs ----------------------------------------------------------------------------------------------- */

/* Number of inputs that a node of this operator keeps: absent optional ones at the end are added as -1, so
 * that rules and algorithms can address every input by its place. */
static enum clcnn_status check_inputs(const struct clcnn_graph *g, const struct op_def *op, const char *layer,
                                      const int *inputs, int count, int *kept, struct clcnn_err *err)
{
    const char *cursor = op->inputs;
    struct input_name name;
    int i = 0;

    while (next_input(&cursor, &name)) {
        do {
            int value = i < count ? inputs[i] : -1;
            if (value == -1 && !name.optional) {
                return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: input \"%s\" is missing (inputs: %s)", op->name,
                                  layer, name.text, op->inputs);
            }
            if (value < -1 || value >= g->n_values) {
                return clcnn_fail(
                    err, CLCNN_E_VALUE,
                    "%s %s: input \"%s\" refers to value %d, which does not exist (the graph has %d)",
                    op->name, layer, name.text, value, g->n_values);
            }
            i++;
        } while (name.many && i < count);
    }
    if (count > i) {
        return clcnn_fail(err, CLCNN_E_VALUE, "%s %s: %d inputs given, at most %d expected (%s)", op->name,
                          layer, count, i, op->inputs);
    }
    *kept = i;
    return CLCNN_OK;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Runs the operator's rule; shapes of the results in in->out. */
static enum clcnn_status run_rule(const struct clcnn_graph *g, const struct node *n, struct infer *in,
                                  struct clcnn_err *err)
{
    char what[CLCNN_NAME_MAX + 48];
    enum clcnn_status st = graph_infer(g, n, in, err);

    if (st != CLCNN_OK)
        return st;
    st = types_check(in, err);
    if (st == CLCNN_OK)
        st = n->op->infer(in, err);
    if (st == CLCNN_OK)
        types_of_outputs(in);
    free((void *)in->in);
    snprintf(what, sizeof what, "%s %s: the output", n->op->name, n->name);
    for (int i = 0; st == CLCNN_OK && i < in->n_out; i++)
        st = shape_check(&in->out[i], what, err);
    return st;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static enum clcnn_status node_alloc(struct node *n, const struct op_def *op, const char *name, int n_in,
                                    struct clcnn_err *err)
{
    size_t bytes = op->attrs_size ? op->attrs_size : 1;

    *n = (struct node){.op = op, .n_in = n_in, .epi = {.add = -1, .act = ACT_none}};
    n->name = clcnn_strdup(name);
    n->attrs = clcnn_calloc(1, bytes);
    n->in = clcnn_calloc((size_t)n_in, sizeof *n->in);
    if (!n->name || !n->attrs || !n->in)
        return clcnn_fail_mem(err, bytes + (size_t)n_in * sizeof *n->in);
    return CLCNN_OK;
}

/* Moves a finished node into the graph and makes its values. */
static enum clcnn_status node_commit(struct clcnn_graph *g, struct node *n, const struct infer *in,
                                     int *values, struct clcnn_err *err)
{
    n->n_out = in->n_out;
    n->out = clcnn_calloc((size_t)in->n_out, sizeof *n->out);
    if (!n->out || !graph_grow_values(g, in->n_out) || !graph_grow_nodes(g))
        return clcnn_fail_mem(err, (size_t)in->n_out * sizeof *g->values);
    for (int i = 0; i < in->n_out; i++) {
        n->out[i] = values[i] = g->n_values++;
        g->values[values[i]] =
            (struct value){.kind = VALUE_NODE, .shape = in->out[i], .producer = g->n_nodes};
    }
    g->nodes[g->n_nodes++] = *n;
    return CLCNN_OK;
}

static enum clcnn_status find_op(const char *name, const struct op_def **op, struct clcnn_err *err)
{
    int index = name ? clcnn_op_find(name) : -1;

    if (index < 0 || clcnn_ops[index]->internal)
        return clcnn_fail(err, CLCNN_E_VALUE, "unknown operator \"%.64s\"", name ? name : "");
    *op = clcnn_ops[index];
    return CLCNN_OK;
}

enum clcnn_status clcnn_graph_node(struct clcnn_graph *g, const char *op_name, const char *name,
                                   const int *inputs, int input_count, const struct clcnn_attr *attrs,
                                   int attr_count, int *values, int max_values, int *value_count,
                                   struct clcnn_err *err)
{
    enum clcnn_status st;
    const struct op_def *op = NULL;
    struct node n = {0};
    struct infer in;
    int kept = 0;

    TRY(find_op(op_name, &op, err));
    TRY(graph_name_check(op->name, name, CLCNN_NAME_MAX, err));
    const struct hash128 key = hash128_text(name);
    if (map_get(&g->node_names, key) >= 0)
        TRY(clcnn_fail(err, CLCNN_E_VALUE, "%s %s: a layer of this name exists already", op->name, name));
    if (!map_reserve(&g->node_names))
        TRY(clcnn_fail_mem(err, sizeof key));
    TRY(check_inputs(g, op, name, inputs, input_count, &kept, err));
    TRY(node_alloc(&n, op, name, kept, err));
    for (int i = 0; i < kept; i++)
        n.in[i] = i < input_count ? inputs[i] : -1;
    TRY(attrs_set(op, name, n.attrs, attrs, attr_count, err));
    TRY(run_rule(g, &n, &in, err));
    if (in.n_out > max_values)
        TRY(clcnn_fail(err, CLCNN_E_VALUE, "%s %s has %d outputs, room was given for %d", op->name, name,
                       in.n_out, max_values));
    TRY(node_commit(g, &n, &in, values, err));
    map_put(&g->node_names, key, g->n_nodes - 1);
    *value_count = in.n_out;
    return CLCNN_OK;
done:
    node_clear(&n);
    return st;
}

enum clcnn_status graph_unary(struct clcnn_graph *g, const struct op_def *op, const char *name, int input,
                              int *value, struct clcnn_err *err)
{
    enum clcnn_status st;
    struct node n = {0};
    struct infer in;

    TRY(node_alloc(&n, op, name, 1, err));
    n.in[0] = input;
    TRY(attrs_set(op, name, n.attrs, NULL, 0, err));
    TRY(run_rule(g, &n, &in, err));
    TRY(node_commit(g, &n, &in, value, err));
    return CLCNN_OK;
done:
    node_clear(&n);
    return st;
}

enum clcnn_status graph_append(struct clcnn_graph *g, const struct op_def *op, const char *name,
                               const void *attrs, const int *inputs, int n_in, int *value,
                               struct clcnn_err *err)
{
    enum clcnn_status st;
    struct node n = {0};
    struct infer in;

    TRY(node_alloc(&n, op, name, n_in, err));
    memcpy(n.in, inputs, (size_t)n_in * sizeof *inputs);
    if (op->attrs_size)
        memcpy(n.attrs, attrs, op->attrs_size);
    TRY(run_rule(g, &n, &in, err));
    TRY(node_commit(g, &n, &in, value, err));
    return CLCNN_OK;
done:
    node_clear(&n);
    return st;
}

enum clcnn_status graph_keep_names(struct clcnn_graph *g, int first, struct clcnn_err *err)
{
    for (int i = first; i < g->n_nodes; i++) {
        if (!map_reserve(&g->node_names))
            return clcnn_fail_mem(err, sizeof(struct hash128));
        map_put(&g->node_names, hash128_text(g->nodes[i].name), i);
    }
    return CLCNN_OK;
}

void graph_take_back(struct clcnn_graph *g, int n_nodes, int n_values)
{
    while (g->n_nodes > n_nodes)
        node_clear(&g->nodes[--g->n_nodes]);
    while (g->n_values > n_values) {
        const struct value *v = &g->values[--g->n_values];
        free(v->name);
        free(v->owned);
    }
}

enum clcnn_status graph_permute(struct clcnn_graph *g, const int *order, int count, struct clcnn_err *err)
{
    struct node *sorted = clcnn_calloc((size_t)count + 1, sizeof *sorted);

    if (!sorted)
        return clcnn_fail_mem(err, (size_t)count * sizeof *sorted);
    for (int i = 0; i < count; i++) {
        sorted[i] = g->nodes[order[i]];
        for (int k = 0; k < sorted[i].n_out; k++)
            g->values[sorted[i].out[k]].producer = i;
    }
    free(g->nodes);
    g->nodes = sorted;
    g->cap_nodes = count + 1;
    return CLCNN_OK;
}

/* ---- copy ---------------------------------------------------------------------------------------------- */

static void *copy_bytes(const void *src, size_t count, size_t size)
{
    void *copy = clcnn_calloc(count ? count : 1, size ? size : 1);

    if (copy && count && size)
        memcpy(copy, src, count * size);
    return copy;
}

static bool copy_values(struct clcnn_graph *g, const struct clcnn_graph *src)
{
    if (!graph_grow_values(g, src->n_values))
        return false;
    for (int i = 0; i < src->n_values; i++) {
        const struct value *from = &src->values[i];
        struct value *to = &g->values[g->n_values++];
        *to = *from;
        to->name = from->name ? clcnn_strdup(from->name) : NULL;
        to->owned = NULL;
        if (from->name && !to->name)
            return false;
    }
    return true;
}

/* Appends a copy of a node, which may be one of the same graph. */
static bool copy_node(struct clcnn_graph *g, const struct clcnn_graph *src, int index, const char *suffix)
{
    char name[CLCNN_NAME_MAX];
    if (!graph_grow_nodes(g))
        return false;
    const struct node *from = &src->nodes[index];
    struct node *to = &g->nodes[g->n_nodes++];
    *to = *from;
    snprintf(name, sizeof name, "%.*s%s", (int)(sizeof name - strlen(suffix) - 1), from->name, suffix);
    to->name = clcnn_strdup(name);
    to->attrs = copy_bytes(from->attrs, 1, from->op->attrs_size);
    to->in = copy_bytes(from->in, (size_t)from->n_in, sizeof *from->in);
    to->out = copy_bytes(from->out, (size_t)from->n_out, sizeof *from->out);
    to->merged = NULL;
    return to->name && to->attrs && to->in && to->out;
}

static bool copy_nodes(struct clcnn_graph *g, const struct clcnn_graph *src)
{
    for (int i = 0; i < src->n_nodes; i++)
        if (!copy_node(g, src, i, ""))
            return false;
    return true;
}

enum clcnn_status graph_repeat(struct clcnn_graph *g, int index, struct clcnn_err *err)
{
    const int n_out = g->nodes[index].n_out;
    if (!graph_grow_values(g, n_out) || !copy_node(g, g, index, CLCNN_AGAIN))
        return clcnn_fail_mem(err, (size_t)n_out * sizeof *g->values);
    struct node *again = &g->nodes[g->n_nodes - 1];
    for (int i = 0; i < n_out; i++) {
        g->values[g->n_values] = g->values[again->out[i]];
        g->values[g->n_values].name = NULL;
        g->values[g->n_values].producer = g->n_nodes - 1;
        again->out[i] = g->n_values++;
    }
    return CLCNN_OK;
}

static bool copy_io(struct clcnn_graph *g, const struct clcnn_graph *src)
{
    g->inputs = copy_bytes(src->inputs, (size_t)src->n_inputs, sizeof *src->inputs);
    g->outputs = clcnn_calloc((size_t)(src->n_outputs ? src->n_outputs : 1), sizeof *src->outputs);
    if (!g->inputs || !g->outputs)
        return false;
    g->n_inputs = g->cap_inputs = src->n_inputs;
    g->cap_outputs = src->n_outputs;
    for (; g->n_outputs < src->n_outputs; g->n_outputs++) {
        struct graph_output *to = &g->outputs[g->n_outputs];
        *to = src->outputs[g->n_outputs];
        to->name = clcnn_strdup(src->outputs[g->n_outputs].name);
        if (!to->name)
            return false;
    }
    return true;
}

enum clcnn_status graph_copy(struct clcnn_graph **out, const struct clcnn_graph *src, struct clcnn_err *err)
{
    struct clcnn_graph *g;
    enum clcnn_status st = clcnn_graph_create(&g, err);

    if (st != CLCNN_OK)
        return st;
    if (!copy_values(g, src) || !copy_nodes(g, src) || !copy_io(g, src)) {
        clcnn_graph_free(g);
        return clcnn_fail_mem(err, sizeof *g);
    }
    *out = g;
    return CLCNN_OK;
}
