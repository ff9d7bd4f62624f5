/* graph.c: values, nodes and outputs of a graph. A node may refer only to values that exist, so a graph has
 * no cycles and its nodes are in an order in which they can run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph_private.h"

enum clcnn_status clcnn_graph_create(struct clcnn_graph **out, struct clcnn_err *err)
{
    struct clcnn_graph *g = clcnn_calloc(1, sizeof *g);

    if (!g)
        return clcnn_fail_mem(err, sizeof *g);
    *out = g;
    return CLCNN_OK;
}

void node_clear(struct node *n)
{
    if (n->merged) {
        n->merged->last.out = NULL; /* n's own */
        node_clear(&n->merged->last);
        free(n->merged);
    }
    free(n->name);
    free(n->attrs);
    free(n->in);
    free(n->out);
}

void clcnn_graph_free(struct clcnn_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_values; i++) {
        free(g->values[i].name);
        free(g->values[i].owned);
    }
    for (int i = 0; i < g->n_nodes; i++)
        node_clear(&g->nodes[i]);
    for (int i = 0; i < g->n_outputs; i++)
        free(g->outputs[i].name);
    free(g->values);
    free(g->nodes);
    free(g->inputs);
    free(g->outputs);
    map_free(&g->source_names);
    map_free(&g->node_names);
    map_free(&g->output_names);
    free(g);
}

/* ---- room for one more --------------------------------------------------------------------------------- */

static bool grow_inputs(struct clcnn_graph *g)
{
    void *items = g->inputs;
    bool ok = clcnn_grow(&items, &g->cap_inputs, g->n_inputs + 1, sizeof *g->inputs);

    g->inputs = items;
    return ok;
}

bool graph_grow_outputs(struct clcnn_graph *g)
{
    void *items = g->outputs;
    bool ok = clcnn_grow(&items, &g->cap_outputs, g->n_outputs + 1, sizeof *g->outputs);

    g->outputs = items;
    return ok;
}

bool graph_grow_values(struct clcnn_graph *g, int more)
{
    void *items = g->values;
    bool ok = clcnn_grow(&items, &g->cap_values, g->n_values + more, sizeof *g->values);

    g->values = items;
    return ok;
}

bool graph_grow_nodes(struct clcnn_graph *g)
{
    void *items = g->nodes;
    bool ok = clcnn_grow(&items, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes);

    g->nodes = items;
    return ok;
}

/* ---- building ------------------------------------------------------------------------------------------ */

enum clcnn_status graph_name_check(const char *what, const char *name, size_t most, struct clcnn_err *err)
{
    if (!name || !*name)
        return clcnn_fail(err, CLCNN_E_VALUE, "%s needs a name", what);
    if (strlen(name) >= most) {
        return clcnn_fail(err, CLCNN_E_VALUE, "%s \"%.40s...\": the name is longer than %zu bytes", what,
                          name, most - 1);
    }
    return CLCNN_OK;
}

/* Inputs, constants and states: a named value without a producer. */
enum clcnn_status graph_source(struct clcnn_graph *g, enum value_kind kind, const char *name,
                               const struct clcnn_shape *shape, const void *data, int *value,
                               struct clcnn_err *err)
{
    static const char *const words[] = {
        [VALUE_INPUT] = "input", [VALUE_CONSTANT] = "constant", [VALUE_STATE] = "state"};
    const char *word = words[kind];
    char what[CLCNN_NAME_MAX + 16];
    enum clcnn_status st = graph_name_check(word, name, CLCNN_IO_NAME_MAX, err);

    if (st != CLCNN_OK)
        return st;
    snprintf(what, sizeof what, "%s %s", word, name);
    const struct hash128 key = hash128_text(name);
    if (map_get(&g->source_names, key) >= 0)
        return clcnn_fail(err, CLCNN_E_VALUE, "%s: an input, constant or state of this name exists already",
                          what);
    st = shape_check(shape, what, err);
    if (st != CLCNN_OK)
        return st;
    char *copy = clcnn_strdup(name);
    if (!copy || !graph_grow_values(g, 1) || !map_reserve(&g->source_names) ||
        (kind == VALUE_INPUT && !grow_inputs(g))) {
        free(copy);
        return clcnn_fail_mem(err, sizeof *g->values);
    }
    *value = g->n_values++;
    map_put(&g->source_names, key, *value);
    g->values[*value] =
        (struct value){.name = copy, .kind = kind, .shape = *shape, .data = data, .producer = -1};
    if (kind == VALUE_INPUT)
        g->inputs[g->n_inputs++] = *value;
    return CLCNN_OK;
}

enum clcnn_status clcnn_graph_input(struct clcnn_graph *g, const char *name, const struct clcnn_shape *shape,
                                    int *value, struct clcnn_err *err)
{
    return graph_source(g, VALUE_INPUT, name, shape, NULL, value, err);
}

enum clcnn_status clcnn_graph_constant(struct clcnn_graph *g, const char *name,
                                       const struct clcnn_shape *shape, const void *data, int *value,
                                       struct clcnn_err *err)
{
    if (!data)
        return clcnn_fail(err, CLCNN_E_VALUE, "constant %s has no data", name ? name : "");
    return graph_source(g, VALUE_CONSTANT, name, shape, data, value, err);
}

enum clcnn_status graph_owned_constant(struct clcnn_graph *g, const struct clcnn_shape *shape, int *value,
                                       struct clcnn_err *err)
{
    enum clcnn_status st = shape_check(shape, "a constant made by a rewrite", err);
    if (st != CLCNN_OK)
        return st;
    const size_t bytes = shape_bytes(shape);
    float *data = clcnn_calloc(bytes, 1);
    if (!data || !graph_grow_values(g, 1)) {
        free(data);
        return clcnn_fail_mem(err, bytes);
    }
    *value = g->n_values++;
    g->values[*value] =
        (struct value){.kind = VALUE_CONSTANT, .shape = *shape, .data = data, .owned = data, .producer = -1};
    return CLCNN_OK;
}

enum clcnn_status graph_constant_rows(struct clcnn_graph *g, int whole, int32_t first, int32_t count,
                                      int *value, struct clcnn_err *err)
{
    if (!graph_grow_values(g, 1))
        return clcnn_fail_mem(err, sizeof *g->values);
    const struct value *from = &g->values[whole];
    struct clcnn_shape row = from->shape, rows = row;
    row.dim[0] = 1;
    rows.dim[0] = count;
    char *data = (char *)(uintptr_t)from->data + first * shape_bytes(&row);
    *value = g->n_values++;
    g->values[*value] = (struct value){
        .kind = VALUE_CONSTANT,
        .shape = rows,
        .data = data,
        .donated = from->owned || from->donated ? data : NULL,
        .producer = -1,
    };
    return CLCNN_OK;
}

enum clcnn_status graph_constant_in_place(struct clcnn_graph *g, int donated, const struct clcnn_shape *shape,
                                          int *value, struct clcnn_err *err)
{
    if (!graph_grow_values(g, 1))
        return clcnn_fail_mem(err, sizeof *g->values);
    void *const data = g->values[donated].donated;
    *value = g->n_values++;
    g->values[*value] = (struct value){
        .kind = VALUE_CONSTANT, .shape = *shape, .data = data, .donated = data, .producer = -1};
    return CLCNN_OK;
}

enum clcnn_status graph_value_check(const struct clcnn_graph *g, int value, struct clcnn_err *err)
{
    if (value >= 0 && value < g->n_values)
        return CLCNN_OK;
    return clcnn_fail(err, CLCNN_E_VALUE, "value %d does not exist; the graph has %d", value, g->n_values);
}

enum clcnn_status clcnn_graph_donate(struct clcnn_graph *g, int value, struct clcnn_err *err)
{
    enum clcnn_status st = graph_value_check(g, value, err);

    if (st != CLCNN_OK)
        return st;
    struct value *v = &g->values[value];
    if (v->kind != VALUE_CONSTANT)
        return clcnn_fail(err, CLCNN_E_VALUE, "value %d is no constant: there is nothing to donate", value);
    v->donated = (void *)(uintptr_t)v->data;
    return CLCNN_OK;
}

enum clcnn_status clcnn_graph_output(struct clcnn_graph *g, int value, const char *name,
                                     struct clcnn_err *err)
{
    char *copy = NULL, *value_name = NULL;
    enum clcnn_status st = graph_name_check("output", name, CLCNN_IO_NAME_MAX, err);

    if (st == CLCNN_OK)
        st = graph_value_check(g, value, err);
    if (st != CLCNN_OK)
        return st;
    const struct hash128 key = hash128_text(name);
    if (map_get(&g->output_names, key) >= 0)
        return clcnn_fail(err, CLCNN_E_VALUE, "output %s exists already", name);
    struct value *v = &g->values[value];
    bool unnamed = !v->name;
    copy = clcnn_strdup(name);
    value_name = unnamed ? clcnn_strdup(name) : NULL;
    if (!copy || (unnamed && !value_name) || !graph_grow_outputs(g) || !map_reserve(&g->output_names)) {
        free(copy);
        free(value_name);
        return clcnn_fail_mem(err, sizeof *g->outputs);
    }
    if (unnamed)
        v->name = value_name;
    map_put(&g->output_names, key, g->n_outputs);
    g->outputs[g->n_outputs++] = (struct graph_output){.value = value, .name = copy};
    return CLCNN_OK;
}

/* ---- looking ------------------------------------------------------------------------------------------- */

int clcnn_graph_value_count(const struct clcnn_graph *g)
{
    return g->n_values;
}

enum clcnn_status clcnn_graph_value_shape(const struct clcnn_graph *g, int value, struct clcnn_shape *shape,
                                          struct clcnn_err *err)
{
    enum clcnn_status st = graph_value_check(g, value, err);

    if (st == CLCNN_OK)
        *shape = g->values[value].shape;
    return st;
}

enum clcnn_status graph_infer(const struct clcnn_graph *g, const struct node *n, struct infer *in,
                              struct clcnn_err *err)
{
    size_t count = (size_t)(n->n_in > 0 ? n->n_in : 1);
    struct clcnn_shape *shapes = clcnn_calloc(count, sizeof *shapes);

    if (!shapes)
        return clcnn_fail_mem(err, count * sizeof *shapes);
    memset(in, 0, sizeof *in);
    in->op = n->op;
    in->layer = n->name;
    in->attrs = n->attrs;
    in->n_in = n->n_in;
    in->in = shapes;
    in->n_out = n->n_out;
    for (int i = 0; i < n->n_in; i++)
        shapes[i] = n->in[i] < 0 ? (struct clcnn_shape){.rank = -1} : g->values[n->in[i]].shape;
    for (int i = 0; i < n->n_out; i++)
        in->out[i] = g->values[n->out[i]].shape;
    return CLCNN_OK;
}

int clcnn_graph_node_count(const struct clcnn_graph *g)
{
    return g->n_nodes;
}

enum clcnn_status clcnn_graph_node_info(const struct clcnn_graph *g, int node, struct clcnn_node_info *info,
                                        struct clcnn_err *err)
{
    if (node < 0 || node >= g->n_nodes)
        return clcnn_fail(err, CLCNN_E_VALUE, "node %d does not exist; the graph has %d", node, g->n_nodes);
    const struct node *n = &g->nodes[node];
    struct infer in;
    enum clcnn_status st = graph_infer(g, n, &in, err);
    if (st != CLCNN_OK)
        return st;
    *info = (struct clcnn_node_info){
        .name = n->name,
        .op = n->op->name,
        .input_count = n->n_in,
        .output_count = n->n_out,
        .inputs = n->in,
        .outputs = n->out,
        .macs = n->op->macs ? n->op->macs(&in) : 0.0,
    };
    free((void *)in.in);
    return CLCNN_OK;
}

/* What a live node or an output refers to must exist and must not come from a removed node. */
static enum clcnn_status check_use(const struct clcnn_graph *g, int value, const char *who,
                                   struct clcnn_err *err)
{
    if (value < 0 || value >= g->n_values)
        return clcnn_fail(err, CLCNN_E_INTERNAL, "%s refers to value %d, which does not exist", who, value);
    int producer = g->values[value].producer;
    if (producer >= 0 && g->nodes[producer].dead) {
        return clcnn_fail(err, CLCNN_E_INTERNAL, "%s refers to a result of %s, which was removed", who,
                          g->nodes[producer].name);
    }
    return CLCNN_OK;
}

enum clcnn_status graph_check(const struct clcnn_graph *g, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    int results = 0;

    for (int i = 0; i < g->n_outputs; i++)
        results += g->outputs[i].use == OUTPUT_RESULT;
    if (results == 0)
        return clcnn_fail(err, CLCNN_E_VALUE, "graph has no output");
    for (int i = 0; i < g->n_outputs; i++)
        TRY(check_use(g, g->outputs[i].value, g->outputs[i].name, err));
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        if (n->dead)
            continue;
        for (int k = 0; k < n->n_in; k++) {
            if (n->in[k] != -1) /* an optional input that is absent */
                TRY(check_use(g, n->in[k], n->name, err));
        }
        if (n->epi.add != -1)
            TRY(check_use(g, n->epi.add, n->name, err));
    }
done:
    return st;
}
