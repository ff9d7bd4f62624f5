/* rewrite_views.h: which element of a value an index stands for, through nodes that only move elements. */
#ifndef CLCNN_GRAPH_REWRITE_VIEWS_H
#define CLCNN_GRAPH_REWRITE_VIEWS_H

#include "graph/rewrite.h"

#define VIEW_AXES 4
#define VIEW_PARTS 6

/* A stretch of an axis: `size` steps of `stride` elements. */
struct view_part {
    int64_t size, stride;
};
/* An axis as a number with several digits, the first one the highest; without any it has one place. */
struct view_axis {
    int n;
    struct view_part part[VIEW_PARTS];
};
/* Elements of `value`, counted in row-major order, for indices along axes. */
struct value_view {
    int value;
    int64_t offset;
    struct view_axis axis[VIEW_AXES];
};

struct value_view view_of(int value, const int64_t size[VIEW_AXES], const int64_t stride[VIEW_AXES]);
/* The same elements in the input of the node that computes the value, or in the output of the node that reads it. False where
 * the node does more than to move elements, or moves them so that the axes do not stay regular. */
bool view_before(const struct rewriter *r, struct value_view *view);
bool view_after(const struct rewriter *r, const struct node *n, struct value_view *view);
/* Whether a gather takes one index, which is a constant: it, counted from the first. */
bool view_gathers_one(const struct clcnn_graph *g, const struct node *n, int64_t *at);
/* The same indices, which count through a dense `shape`, in `value`, which broadcasts to that shape. */
bool view_broadcast(const struct clcnn_graph *g, struct value_view *view, const struct clcnn_shape *shape,
                    int value);
/* How many steps of the first axis are a run, after which it goes on elsewhere, or in the next item of the value. */
int64_t view_run(const struct clcnn_graph *g, const struct value_view *view);
/* Whether each axis has one stride in the value's memory, whose items may lie apart, and the first one that of a run, too, after
 * `run` steps; then what they are. */
bool view_strides(const struct clcnn_graph *g, const struct value_view *view, int64_t run,
                  struct operand_view *strides);
/* The same for runs of *run items; 1: for runs of whatever length, which it then is. NULL: items have one stride. */
bool view_is_taken(const struct rewriter *r, int32_t *run, const struct value_view *view);
/* Steps back as long as the operand stays such a view, and over factors where there is a scale. It only stops at views that `fits`
 * takes, NULL: at any. Tells whether it has left out more than reshapes. */
bool view_step_back(const struct rewriter *r, struct value_view *operand, int32_t *run, double *scale,
                    bool (*fits)(const struct value_view *view));
/* Nodes before `last` that views left out die once nothing reads them. Counts the uses of values anew. */
enum clcnn_status view_drop_unread(struct rewriter *r, const struct node *last);

#endif
