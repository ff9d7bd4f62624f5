/* grad.h: gradients as nodes of the same graph: what the rule of an operator sees, and what it builds with. */
#ifndef CLCNN_GRAD_GRAD_H
#define CLCNN_GRAD_GRAD_H

#include "graph/graph.h"

/* One node on the way back from the loss. A rule asks grad_wants() for each input, builds its gradient out of `dy`, and hands
 * it over by grad_give(). The first failure sticks: what is built after it is -1, so that rules read as formulas. */
struct grad {
    struct clcnn_graph *graph;
    struct node node;           /* a copy: nodes move as the graph grows, what they point to stays */
    int dy[MAX_OUTPUTS];        /* gradients of its outputs; -1: the loss does not depend on it */
    const bool *wanted;         /* for each input */
    int *dx;                    /* what the rule gives; -1: nothing */
    char label[CLCNN_NAME_MAX]; /* of the nodes that are made, "conv1:dx" */
    struct map made;            /* their names */
    struct clcnn_err *err;
    enum clcnn_status st;
};
typedef void grad_rule(struct grad *g);

/* ---- grad_build.c: for rules ------------------------------------------------------------------------------ */

/* Whether the gradient of input i is asked for; what is built from now on is named after it. */
bool grad_wants(struct grad *g, int i);
void grad_give(struct grad *g, int i, int value);
/* UNSUPPORTED, with operator and layer: what this rule cannot do. */
void grad_unsupported(struct grad *g, const char *what);
struct clcnn_shape grad_shape(const struct grad *g, int value); /* rank 0 after a failure */

/* A node with attributes as the operator's struct (NULL: the defaults); the first of its outputs, or all of them. */
int grad_node(struct grad *g, const struct op_def *op, const void *attrs, const int *in, int n_in);
void grad_outputs(struct grad *g, const struct op_def *op, const void *attrs, const int *in, int n_in,
                  int out[MAX_OUTPUTS]);
int grad_of(struct grad *g, const struct op_def *op, int x);
int grad_of_two(struct grad *g, const struct op_def *op, int a, int b);
int grad_add(struct grad *g, int a, int b);
/* The sum of two gradients of a value: those of parts that lie side by side are joined (grad_move.c). */
int grad_together(struct grad *g, int a, int b);
int grad_sub(struct grad *g, int a, int b);
int grad_mul(struct grad *g, int a, int b);
int grad_div(struct grad *g, int a, int b);
int grad_number(struct grad *g, double number);
int grad_scale(struct grad *g, int x, double factor);
int grad_plus(struct grad *g, int x, double number);
/* dy where m is positive, 0 elsewhere. */
int grad_masked(struct grad *g, int dy, int m);
/* A constant of the shape, to be filled; NULL after a failure. */
float *grad_constant(struct grad *g, const struct clcnn_shape *shape, int *value);

int grad_reshape(struct grad *g, int x, const struct clcnn_shape *shape);
int grad_expand(struct grad *g, int x, const struct clcnn_shape *shape);
int grad_full(struct grad *g, const struct clcnn_shape *shape, double number);
int grad_transpose(struct grad *g, int x, const int32_t *perm);
int grad_swap_last(struct grad *g, int x); /* the last two dimensions */
/* Elements [start, start + count) of dimension dim. */
int grad_range(struct grad *g, int x, int dim, int32_t start, int32_t count);
/* Bits of dimensions; the result keeps them as ones, or lacks them. */
int grad_reduce(struct grad *g, const struct op_def *op, int x, unsigned dims, bool keep);
/* The sum over what broadcasting repeated: a value of `shape`, which broadcasts to that of x. */
int grad_sum_to(struct grad *g, int x, const struct clcnn_shape *shape);
/* A vector of one element a channel, as it broadcasts to maps of `rank` dimensions. */
int grad_channels(struct grad *g, int vector, int rank);
/* The sum over all dimensions but that of the channels: a vector. */
int grad_sum_channels(struct grad *g, int x);
/* The product of a matrix with what lies along dimension dim of x. */
int grad_along(struct grad *g, int x, int dim, int matrix);

/* A number of int64. */
int grad_whole(struct grad *g, int64_t number);
/* 0, 1, ... times `step`, of int64, along dimension dim of a shape of so many dimensions that is 1 elsewhere. */
int grad_counting(struct grad *g, int32_t count, int64_t step, int dim, int rank);
/* A value as elements of another type. */
int grad_cast(struct grad *g, int x, enum clcnn_dtype to);
/* Zeros of `shape` to whose slices along dim those of `updates` are added at `index`, a vector, in its order. */
int grad_scatter(struct grad *g, const struct clcnn_shape *shape, int dim, int index, int updates);

/* grad.c: gradients of the `count` values in wrt by way of y, which the rule has built of ordinary nodes since node `first`; -1 where
 * there is none. So the rule of an operator that is a formula of others need only write that down. */
void grad_through(struct grad *g, int first, int y, int dy, const int *wrt, int count, int *dx);

/* Part of the rule of pad: other modes than constant. */
void grad_pad_line(struct grad *g);

/* ---- the rules --------------------------------------------------------------------------------------------- */

#define GRAD(op, rule) grad_rule grad_##rule;
#define NOT_YET(op)
#define NONE(op)
#include "grad/gradients.def"
#undef GRAD
#undef NOT_YET
#undef NONE

#endif
