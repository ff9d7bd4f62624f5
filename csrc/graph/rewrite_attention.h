/* rewrite_attention.h: attention as rewrite_attention.c finds it in a graph, its operands as views (rewrite_attention_views.c), and its
 * masks (rewrite_attention_masks.c). */
#ifndef CLCNN_GRAPH_REWRITE_ATTENTION_H
#define CLCNN_GRAPH_REWRITE_ATTENTION_H

#include "graph/rewrite_views.h"

enum { ITEM, HEAD, ROW, COLUMN };
enum { Q, K, V, MASK };
enum {
    MOST_MASKS = 3,
    MOST_NODES = 12, /* between the products */
};

struct mask {
    int value;
    struct clcnn_shape scores; /* where it is added */
};

struct attention {
    struct node *scores, *softmax, *product;
    struct node *between[MOST_NODES], *last;
    struct mask mask[MOST_MASKS];
    int n_between, masks;
    bool scaled; /* a factor stands between what comes before and the softmax */
    double scale;
    struct value_view operand[3], result;
    struct attention_attrs attrs;
};

/* Matrices one after the other: `turned`, the operand's rows are their columns. */
struct value_view attention_matrices(const struct attention *a, int value, int64_t heads, int64_t rows,
                                     int64_t columns, bool turned);
/* All operands and the result, as far back and on as they stay such views. */
bool attention_find_views(const struct rewriter *r, struct attention *a);

/* The only mask may be a sum of two of other shapes: they take its place. */
void attention_divide_mask(const struct rewriter *r, struct attention *a);
/* Two masks, each of which one digit tells: the lower one's first. */
bool attention_join_digits(const struct rewriter *r, struct attention *a, int *lower, int *higher);
/* One value that holds all masks, -1 where there is none: the only one as it is, or the sum of constants. */
enum clcnn_status attention_join_masks(struct rewriter *r, const struct attention *a, bool *can, int *value);

#endif
