/* token_region.h: layers on maps [N, C, H, W] that could work on tokens, [N, H, W, C], as well, all that lie between some
 * transposes. */
#ifndef CLCNN_GRAPH_TOKEN_REGION_H
#define CLCNN_GRAPH_TOKEN_REGION_H

#include "graph/rewrite.h"

enum { REGION_LAYERS = 32, REGION_SOURCES = 8, REGION_ENDS = 16 };

/* Nodes by their index. Every map that a layer reads is a source, which is tokens turned to a map, or another layer's; every map
 * that a layer gives is read by layers, and by ends, which turn it to tokens. */
struct token_region {
    int layer[REGION_LAYERS], source[REGION_SOURCES], end[REGION_ENDS];
    int n_layers, n_sources, n_ends, convs;
    bool full; /* there were more */
};

/* A depthwise convolution of a map, one filter a channel. */
bool region_is_depthwise(const struct rewriter *r, const struct node *n);
/* The tokens [N, H, W, C], in whatever dimensions, of which a map is made by moves alone; -1: it is not. */
int region_tokens(const struct rewriter *r, int map);
/* The map that a transpose makes such tokens of; -1: it does something else. */
int region_map(const struct rewriter *r, const struct node *transpose);
/* Whether such a region ends at a transpose. */
bool region_find(const struct rewriter *r, int transpose, struct token_region *g);

#endif
