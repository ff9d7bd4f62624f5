/* parts.h: what the files of this folder share. */
#ifndef CLCNN_GRAPH_PARTS_H
#define CLCNN_GRAPH_PARTS_H

#include "internal.h"

/* Room for more; false when out of memory (the graph is then unchanged). */
bool graph_grow_values(struct clcnn_graph *g, int more);
bool graph_grow_nodes(struct clcnn_graph *g);
/* A name must be neither empty nor longer than CLCNN_NAME_MAX - 1 bytes; `what` is "input", "relu" ... */
enum clcnn_status graph_name_check(const char *what, const char *name, struct clcnn_err *err);

#endif
