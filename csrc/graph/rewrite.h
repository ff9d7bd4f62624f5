/* rewrite.h: what the rewrites share. Each pass walks the nodes in order (which is topological), changes the working copy in
 * place, and leaves a line in the notes. */
#ifndef CLCNN_GRAPH_REWRITE_H
#define CLCNN_GRAPH_REWRITE_H

#include "graph/graph.h"

struct rewriter {
    struct clcnn_graph *g;
    const struct rewrite_options *options;
    struct notes *notes;
    struct clcnn_err *err;
    int *uses;      /* per value: by nodes, epilogues and outputs */
    float *scratch; /* of rewrite_products.c */
    size_t scratch_bytes;
};

bool rewrite_is(const struct node *n, const struct op_def *op);
/* Gives its input another shape: a reshape, flatten, squeeze or unsqueeze. */
bool rewrite_is_reshape(const struct node *n);
/* A reshape or a transpose. */
bool rewrite_is_move(const struct node *n);
/* Whether a transpose brings dimension `from` to place `to` and leaves the others in their order. */
bool rewrite_brings(const struct ints *perm, int from, int to);
/* The live node that computes `value`, if nothing else uses the value; NULL otherwise. */
struct node *rewrite_sole_producer(const struct rewriter *r, int value);
/* The live node behind `from` that reads `value`, if nothing else uses the value; NULL otherwise. */
struct node *rewrite_sole_reader(const struct rewriter *r, int value, const struct node *from);
/* The first live node behind `from` that reads `value`, whoever else does; NULL: none. */
struct node *rewrite_next_reader(const struct rewriter *r, int value, const struct node *from);
bool rewrite_is_constant(const struct rewriter *r, int value);
/* Whether weights and bias, inputs 1 and 2, are constants where they are present. */
bool rewrite_weights_are_constant(const struct rewriter *r, const struct node *n);
/* A layer whose algorithm the user forces keeps its own node, unless the algorithm belongs to the merged op. */
bool rewrite_is_forced(const struct rewriter *r, const struct node *n, const struct op_def *merged_op);
/* Whether the user forces an algorithm of this layer at all. */
bool rewrite_is_overridden(const struct rewriter *r, const struct node *n);
bool rewrite_all_equal(const struct ints *list, int32_t wanted);
/* Of a batch normalisation: whether all of its parameters are constants; what it is for a channel then: scale * x + shift. */
bool rewrite_norm_is_constant(const struct rewriter *r, const struct node *bn);
double rewrite_norm_scale(const struct clcnn_graph *g, const struct node *bn, int64_t channel);
double rewrite_norm_shift(const struct clcnn_graph *g, const struct node *bn, int64_t channel);
/* It becomes a convolution by windows of one pixel, with this operator: depthwise, channels first or last. */
enum clcnn_status rewrite_norm_as_depthwise(struct rewriter *r, struct node *bn, const struct op_def *op);
/* A 2-D convolution of 1x1 filters, stride 1, no padding, one group. */
bool rewrite_is_pointwise(const struct rewriter *r, const struct node *n);
enum clcnn_status rewrite_note(struct rewriter *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A constant that the graph owns, without uses yet, for the caller to fill. Passes that look at the uses of new values need it. */
enum clcnn_status rewrite_constant(struct rewriter *r, const struct clcnn_shape *shape, int *value);
/* Makes it a constant of another shape with the same elements: itself where no one else uses it. */
enum clcnn_status rewrite_reshaped(struct rewriter *r, int *constant, const struct clcnn_shape *shape);
/* Gives a node its k-th input, which it may have been made without. */
enum clcnn_status rewrite_set_input(struct rewriter *r, struct node *n, int k, int value);
/* Makes input k of a node, a constant or absent, its own: *to, to be filled, has the shape of the old one (`absent`, where there was
 * none). *old is what it held, NULL: nothing; the same memory where no one else reads it and it is ours. */
enum clcnn_status rewrite_own_input(struct rewriter *r, struct node *n, int k,
                                    const struct clcnn_shape *absent, const float **old, float **to);

/* What becomes of x before a layer reads it: scale * x + shift, a number each for every channel. */
struct rewrite_affine {
    int64_t channels;
    bool last; /* they are the last dimension of x, else dimension 1 */
    const double *scale /* NULL: ones */, *shift;
};
/* Whether layer n, which reads such a result, could read x instead, with other weights. A convolution must pad nothing, since pixels
 * beyond the edges have no shift, unless no channel has one; a linear layer must have whole items as rows, or its columns as channels. */
bool rewrite_takes_affine(const struct rewriter *r, const struct node *n, const struct rewrite_affine *a);
/* Gives it these weights, with which it is to read x. */
enum clcnn_status rewrite_take_affine(struct rewriter *r, struct node *n, const struct rewrite_affine *a);
void rewrite_count_uses(struct rewriter *r);
/* The same where values have been added since the last count. */
enum clcnn_status rewrite_count_anew(struct rewriter *r);
/* Moves `from` to the position of `to`, computing to's output; `to` is gone. */
void rewrite_move(struct rewriter *r, struct node *from, struct node *to);
/* `from` computes to's output as its first one where it stands; `to` is gone. */
void rewrite_take_result(struct rewriter *r, struct node *from, struct node *to);

/* Where nodes belong that a pass appends: behind those that it found, in ascending order. free(of) after use. */
struct places {
    int nodes; /* that there were before */
    int *of, n, cap;
};
struct places places_of(const struct rewriter *r);
/* All that was appended since the last call belongs behind `node`. */
enum clcnn_status places_add(struct rewriter *r, struct places *p, int node);
enum clcnn_status places_take(struct rewriter *r, const struct places *p);
/* Appends a node of one input, "layer:what": *value is its input, then its output. */
enum clcnn_status rewrite_append(struct rewriter *r, const struct op_def *op, const char *layer,
                                 const char *what, const void *attrs, int *value);

enum clcnn_status rewrite_to_bytes(struct rewriter *r);
enum clcnn_status rewrite_drop_identities(struct rewriter *r);
enum clcnn_status rewrite_drop_expands(struct rewriter *r);
enum clcnn_status rewrite_find_rolls(struct rewriter *r);
enum clcnn_status rewrite_find_rotary(struct rewriter *r);
enum clcnn_status rewrite_move_factors(struct rewriter *r);
enum clcnn_status rewrite_merge_attention(struct rewriter *r);
enum clcnn_status rewrite_find_cells(struct rewriter *r);
enum clcnn_status rewrite_find_sequences(struct rewriter *r);
enum clcnn_status rewrite_find_activations(struct rewriter *r);
enum clcnn_status rewrite_find_row_norms(struct rewriter *r);
enum clcnn_status rewrite_cancel_transposes(struct rewriter *r);
enum clcnn_status rewrite_join_gates(struct rewriter *r);
enum clcnn_status rewrite_take_scales(struct rewriter *r);
enum clcnn_status rewrite_join_moves(struct rewriter *r);
enum clcnn_status rewrite_tokens_to_maps(struct rewriter *r);
enum clcnn_status rewrite_fold_batch_norm(struct rewriter *r);
enum clcnn_status rewrite_merge_branches(struct rewriter *r);
enum clcnn_status rewrite_products(struct rewriter *r);
enum clcnn_status rewrite_whole_maps(struct rewriter *r);
enum clcnn_status rewrite_patches_to_rows(struct rewriter *r);
enum clcnn_status rewrite_depthwise_tokens(struct rewriter *r);
enum clcnn_status rewrite_find_splits(struct rewriter *r);
enum clcnn_status rewrite_split_products(struct rewriter *r);
enum clcnn_status rewrite_view_products(struct rewriter *r);
enum clcnn_status rewrite_transposed_to_conv(struct rewriter *r);
enum clcnn_status rewrite_fuse_epilogues(struct rewriter *r);
enum clcnn_status rewrite_masks(struct rewriter *r);
enum clcnn_status rewrite_channel_orders(struct rewriter *r);
enum clcnn_status rewrite_pool_before_pointwise(struct rewriter *r);
enum clcnn_status rewrite_norm_into_readers(struct rewriter *r);
enum clcnn_status rewrite_norm_to_depthwise(struct rewriter *r);
enum clcnn_status rewrite_merge_separable(struct rewriter *r);
enum clcnn_status rewrite_merge_inverted_residual(struct rewriter *r);
enum clcnn_status rewrite_merge_conv_pool(struct rewriter *r);
enum clcnn_status rewrite_join_elementwise(struct rewriter *r);
enum clcnn_status rewrite_mean_to_pool(struct rewriter *r);
enum clcnn_status rewrite_squeeze_excite(struct rewriter *r);

#endif
