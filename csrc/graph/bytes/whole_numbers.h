/* whole_numbers.h: which values are whole numbers, as rounding to steps makes them in quantised files. */
#ifndef CLCNN_GRAPH_WHOLE_NUMBERS_H
#define CLCNN_GRAPH_WHOLE_NUMBERS_H

#include "graph/graph.h"

/* Whole numbers from low to high, or NaN; where `whole` is false it is any number. */
struct whole_range {
    bool whole;
    float low, high;
};

/* Of each value of a graph, whatever its inputs are; the caller frees it. */
enum clcnn_status graph_whole_numbers(const struct clcnn_graph *g, struct whole_range **out,
                                      struct clcnn_err *err);
/* Whether a node rounds what is whole and within its steps by now. */
bool whole_numbers_stay(const struct whole_range *known, const struct node *n);

#endif
