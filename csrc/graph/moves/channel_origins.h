/* channel_origins.h: where the channels of moved values come from. */
#ifndef CLCNN_GRAPH_CHANNEL_ORIGINS_H
#define CLCNN_GRAPH_CHANNEL_ORIGINS_H

#include "graph/rewrite.h"

struct origin {
    int value, channel;
};

/* Of each value the origins of its channels, NULL where it is one itself; and whether a shuffle is behind them. */
struct origins {
    const struct clcnn_graph *g;
    struct origin **of;
    bool *shuffled;
    int n_values;
};

/* Whether some node ends a shuffle of channels. */
bool graph_has_shuffles(const struct clcnn_graph *g);
bool origins_open(struct origins *o, const struct clcnn_graph *g); /* false: out of memory */
/* Finds the origins of what the node computes, if it is a move of channels; false: out of memory. */
bool origins_follow(struct origins *o, const struct node *n);
void origins_close(struct origins *o);

#endif
