/* graph_private.h: what the files of this folder share. */
#ifndef CLCNN_GRAPH_PRIVATE_H
#define CLCNN_GRAPH_PRIVATE_H

#include "graph/graph.h"

/* Room for more; false when out of memory (the graph is then unchanged). */
bool graph_grow_values(struct clcnn_graph *g, int more);
bool graph_grow_nodes(struct clcnn_graph *g);
bool graph_grow_outputs(struct clcnn_graph *g);
void node_clear(struct node *n);
/* A name must be neither empty nor of `most` bytes or more; `what` is "input", "relu" ... */
enum clcnn_status graph_name_check(const char *what, const char *name, size_t most, struct clcnn_err *err);

/* Inputs, constants and states: a named value without a producer. */
enum clcnn_status graph_source(struct clcnn_graph *g, enum value_kind kind, const char *name,
                               const struct clcnn_shape *shape, const void *data, int *value,
                               struct clcnn_err *err);
/* There is such a value. */
enum clcnn_status graph_value_check(const struct clcnn_graph *g, int value, struct clcnn_err *err);

/* inputs.c: the grammar of op_def.inputs, "x w b?" or "xs...". */
struct input_name {
    char text[24];
    bool optional, many;
};
bool next_input(const char **cursor, struct input_name *out);

/* dtype.c: op_def.types. Inputs before the shape rule, outputs after it. */
enum clcnn_status types_check(const struct infer *in, struct clcnn_err *err);
void types_of_outputs(struct infer *in);

#endif
