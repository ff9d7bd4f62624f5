/* graph.h: the graph: values, nodes, and what the planner notes on them. */
#ifndef CLCNN_GRAPH_GRAPH_H
#define CLCNN_GRAPH_GRAPH_H

#include "ops/op.h"

enum value_kind { VALUE_INPUT, VALUE_CONSTANT, VALUE_STATE, VALUE_NODE };

struct value {
    char *name; /* inputs, constants, states, and outputs of nodes that are graph outputs; else NULL */
    enum value_kind kind;
    struct clcnn_shape shape;
    const void *data; /* constants: borrowed, or `owned` */
    float *owned;     /* made by the rewriter; freed with the graph */
    void *donated;    /* `data` where a compile may overwrite it, see clcnn_graph_donate(); else NULL */
    int producer;     /* node, -1 otherwise */
    int block;        /* layout, see struct operand; set by the planner */
    bool rectified;   /* see graph_note_rectified() */
    bool few_bits;    /* see graph_note_few_bits() */
    float bound;      /* see graph_note_bounds(); 0 or infinity: not known */
    int items;        /* its memory holds so many at a time, 0: all; see plan/batch_slices.c */
};

/* y = act(x + bias + add): bias is an input of the op; the rest is what the rewriter fused into the producer. A
 * merged op carries the one of its last convolution. */
struct epilogue {
    int add;    /* value added before the activation, -1: none */
    bool times; /* it is not added, but multiplied after the activation */
    enum act act;
    float p0, p1;
};

struct merged;
struct node {
    char *name;
    const struct op_def *op;
    void *attrs;
    int n_in, n_out;
    int *in, *out;
    struct epilogue epi;
    bool dead;                /* removed by a rewrite */
    bool in_commit;           /* it writes its results where the states are that they are assigned to */
    struct merged *merged;    /* what it was made of, where it can be taken apart again; NULL else */
    int src_block, dst_block; /* layouts in which it takes in[0] and gives its outputs; set by the planner */
    int second_block;         /* the layout in which it takes in[1], unless all_src */
    bool all_src;             /* every input comes as in[0] does */
    bool whole_items; /* it is shown items of the same bytes, with the channels rounded up to blocks */
    bool follows;     /* its maps are in channel blocks, as operand_part() tells of each input */
    int items;        /* of the batch that it computes at a time, 0: all; see plan/batch_slices.c */
    int choice;       /* of its algorithm: counted from 1 in the planner's list, 0: none yet */
    struct clcnn_zeros zeros; /* of in[0]: rewrites that give it other contents forget them */
};

/* A merged node's parts: node `first`, which is dead now, and the node itself as it was. */
struct merged {
    int first;
    struct node last;
};

/* Who takes an output: the caller; a state, once all steps are done; the commit, which asks it whether to change states. */
enum output_use { OUTPUT_RESULT, OUTPUT_ASSIGN, OUTPUT_COMMIT_WHEN };
struct graph_output {
    int value;
    char *name;
    enum output_use use;
    int state; /* OUTPUT_ASSIGN: the value that is assigned to */
};

struct clcnn_graph {
    struct value *values;
    struct node *nodes;
    int *inputs; /* values, in order of creation */
    struct graph_output *outputs;
    int n_values, n_nodes, n_inputs, n_outputs;
    int cap_values, cap_nodes, cap_inputs, cap_outputs;
    /* Names in use, which must be unique among inputs, constants and states, among nodes and among outputs; empty in copies, whose
     * names no one adds to. */
    struct map source_names, node_names, output_names;
};

/* A copy that may be rewritten; the weights are src's. What merged nodes were made of is left behind. */
enum clcnn_status graph_copy(struct clcnn_graph **out, const struct clcnn_graph *src, struct clcnn_err *err);
/* A constant that the graph owns, filled by the caller (rewrites: folded weights). */
enum clcnn_status graph_owned_constant(struct clcnn_graph *g, const struct clcnn_shape *shape, int *value,
                                       struct clcnn_err *err);
/* Rows [first, first + count) of a constant, which take over its memory: nothing else may use it. */
enum clcnn_status graph_constant_rows(struct clcnn_graph *g, int whole, int32_t first, int32_t count,
                                      int *value, struct clcnn_err *err);
/* A constant of another shape in the memory of a donated one, which nothing else may use: filled by the caller. */
enum clcnn_status graph_constant_in_place(struct clcnn_graph *g, int donated, const struct clcnn_shape *shape,
                                          int *value, struct clcnn_err *err);
/* Appends a node of one input and one output (the planner's reorders). */
enum clcnn_status graph_unary(struct clcnn_graph *g, const struct op_def *op, const char *name, int input,
                              int *value, struct clcnn_err *err);
/* Appends a node of one output, with attributes as the operator's struct (rewrites). */
enum clcnn_status graph_append(struct clcnn_graph *g, const struct op_def *op, const char *name,
                               const void *attrs, const int *inputs, int n_in, int *value,
                               struct clcnn_err *err);
/* Of nodes from `first` on, which were appended: their names are taken from now on. */
enum clcnn_status graph_keep_names(struct clcnn_graph *g, int first, struct clcnn_err *err);
/* Appends a node once more, with the same inputs and results of its own, called "conv1:again". */
#define CLCNN_AGAIN ":again"
enum clcnn_status graph_repeat(struct clcnn_graph *g, int index, struct clcnn_err *err);
/* Removes what was appended since there were so many nodes and values, and no one else knows. */
void graph_take_back(struct clcnn_graph *g, int n_nodes, int n_values);
/* Notes on the nodes of a graph, a copy of `named`, what is known of their zeros. */
enum clcnn_status graph_set_zeros(struct clcnn_graph *g, const struct clcnn_graph *named,
                                  const struct clcnn_layer_zeros *zeros, int count, struct clcnn_err *err);
/* Makes a merged node the two that it was made of again. */
void graph_take_apart(struct clcnn_graph *g, struct node *merged);
/* Notes which values come out of a ReLU, perhaps through steps that keep zeros: moves, the largest of windows. */
void graph_note_rectified(struct clcnn_graph *g);
/* Whether this was noted of a value, or of what the planner's reorders made it of. */
bool graph_is_rectified(const struct clcnn_graph *g, int value);
/* Notes which values are whole numbers of at most 256 in size, or NaN, and which constant weights that multiply such values. */
enum clcnn_status graph_note_few_bits(struct clcnn_graph *g, struct clcnn_err *err);
/* Whether this was noted of both that a layer multiplies, perhaps behind the planner's reorders. */
bool graph_has_few_bits(const struct clcnn_graph *g, const struct node *layer);
/* Notes how large elements of each value can get. */
void graph_note_bounds(struct clcnn_graph *g);
/* Size of the largest of them, infinite when one is not finite. */
float largest_size(const float *data, int64_t count);
/* Puts all nodes into a new order: node order[i] becomes node i. */
enum clcnn_status graph_permute(struct clcnn_graph *g, const int *order, int count, struct clcnn_err *err);
/* Shapes of a node's inputs and outputs in the form that shape rules and macs take; free(in->in) after use. */
enum clcnn_status graph_infer(const struct clcnn_graph *g, const struct node *n, struct infer *in,
                              struct clcnn_err *err);
/* Whether a run of it changes states. */
bool graph_assigns(const struct clcnn_graph *g);
/* outputs set, no dangling */
enum clcnn_status graph_check(const struct clcnn_graph *g, struct clcnn_err *err);

struct notes { /* rewrites applied, for people */
    char **line;
    int n, cap;
};
enum clcnn_status notes_add(struct notes *notes, struct clcnn_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct rewrite_options {
    /* a layer whose algorithm is forced is not merged into an op that has no such one */
    const struct clcnn_override *overrides;
    int override_count;
    int block; /* channels of a block of the device, 0: it has none */
    bool gpu;
    bool quick;         /* a plan of few and small kernels */
    bool byte_products; /* maps may be bytes (struct device_traits) */
    bool arrivals;      /* a group can tell whether it is the last one to arrive */
    /* work-items of a group that can keep the weights of a recurrent layer in registers, at most; 0: none */
    size_t keepers;
    size_t together; /* groups that may wait for each other, one on each compute unit; 0: none may */
};
enum clcnn_status graph_rewrite(struct clcnn_graph *g, const struct rewrite_options *options,
                                struct notes *notes, struct clcnn_err *err);

#endif
