/* states.c: states of a graph, and what a run does to them. What is assigned to a state, and the condition of it all, are outputs that
 * no caller takes: so whatever keeps an output keeps them. */
#include <stdlib.h>

#include "graph/graph_private.h"

enum clcnn_status clcnn_graph_state(struct clcnn_graph *g, const char *name, const struct clcnn_shape *shape,
                                    int *value, struct clcnn_err *err)
{
    return graph_source(g, VALUE_STATE, name, shape, NULL, value, err);
}

static enum clcnn_status add(struct clcnn_graph *g, struct graph_output output, const char *name,
                             struct clcnn_err *err)
{
    output.name = clcnn_strdup(name);
    if (!output.name || !graph_grow_outputs(g)) {
        free(output.name);
        return clcnn_fail_mem(err, sizeof output);
    }
    g->outputs[g->n_outputs++] = output;
    return CLCNN_OK;
}

enum clcnn_status clcnn_graph_assign(struct clcnn_graph *g, int state, int value, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(graph_value_check(g, state, err));
    TRY(graph_value_check(g, value, err));
    const struct value *to = &g->values[state], *from = &g->values[value];
    if (to->kind != VALUE_STATE)
        return clcnn_fail(err, CLCNN_E_VALUE, "assign: value %d is no state of the graph", state);
    if (to->shape.dtype != from->shape.dtype)
        return clcnn_fail(err, CLCNN_E_DTYPE, "assign: state %s is of %s, the new value of %s", to->name,
                          clcnn_dtype_name(to->shape.dtype), clcnn_dtype_name(from->shape.dtype));
    if (!shape_equal(&to->shape, &from->shape)) {
        char have[96], got[96];
        return clcnn_fail(err, CLCNN_E_SHAPE, "assign: state %s has shape %s, the new value %s", to->name,
                          shape_text(&to->shape, have), shape_text(&from->shape, got));
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].use == OUTPUT_ASSIGN && g->outputs[i].state == state)
            return clcnn_fail(err, CLCNN_E_VALUE, "assign: state %s is assigned already, and once at most",
                              to->name);
    st = add(g, (struct graph_output){.value = value, .use = OUTPUT_ASSIGN, .state = state}, to->name, err);
done:
    return st;
}

enum clcnn_status clcnn_graph_commit_when(struct clcnn_graph *g, int value, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(graph_value_check(g, value, err));
    const struct clcnn_shape *s = &g->values[value].shape;
    if (s->dtype != CLCNN_BOOL || shape_count(s) != 1) {
        char text[96];
        return clcnn_fail(err, s->dtype != CLCNN_BOOL ? CLCNN_E_DTYPE : CLCNN_E_SHAPE,
                          "commit_when: the condition must be one bool, got %s of shape %s",
                          clcnn_dtype_name(s->dtype), shape_text(s, text));
    }
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].use == OUTPUT_COMMIT_WHEN)
            return clcnn_fail(err, CLCNN_E_VALUE, "commit_when: the graph has a condition already");
    st = add(g, (struct graph_output){.value = value, .use = OUTPUT_COMMIT_WHEN}, "commit_when", err);
done:
    return st;
}

bool graph_assigns(const struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].use == OUTPUT_ASSIGN)
            return true;
    return false;
}
