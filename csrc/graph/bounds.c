/* bounds.c: how large values can get, where norms and constant weights say so: |x| <= bound for each element, whatever the inputs
 * are, unless one of them is not finite. Infinity where nothing is known. */
#include "graph/graph.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define ROUNDING 1.01f /* what sums of rounded products may be more than exact ones */

static float bound_of(const struct clcnn_graph *g, int value)
{
    return value < 0 ? 0.0f : g->values[value].bound;
}

static const float *floats_of(const struct clcnn_graph *g, int value)
{
    const struct value *v = &g->values[value];
    return v->kind == VALUE_CONSTANT && v->shape.dtype == CLCNN_FLOAT32 ? v->data : NULL;
}

/* As integers, since sizes of floats are in the order of their bits, and what is not finite comes last. */
float largest_size(const float *data, int64_t count)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    float size;
    memcpy(&size, &most, sizeof size);
    return size <= FLT_MAX ? size : INFINITY;
}

static bool has(const struct node *n, int input)
{
    return input < n->n_in && n->in[input] >= 0;
}

/* The same of a node's input that is a constant; `absent` where there is none. */
static float constant_bound(const struct clcnn_graph *g, const struct node *n, int input, float absent)
{
    const float *x = has(n, input) ? floats_of(g, n->in[input]) : NULL;
    return x               ? largest_size(x, shape_count(&g->values[n->in[input]].shape))
           : has(n, input) ? INFINITY
                           : absent;
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

/* Elements that are normalised together; 0: it is no norm whose results have a mean square of one at most. */
static int64_t normed_together(const struct clcnn_graph *g, const struct node *n)
{
    const struct rows_norm_attrs *a = n->attrs;
    const struct clcnn_shape *x = &g->values[n->in[0]].shape;
    int64_t count = 1;
    if (n->op != &op_layer_norm && n->op != &op_rms_norm)
        return 0;
    for (int d = a->dim; d < a->dim + a->dims; d++)
        count *= x->dim[d];
    return count;
}

/* A row of L elements whose squares have a mean of one has none above the root of L. */
static float norm_bound(const struct clcnn_graph *g, const struct node *n, int64_t together)
{
    return (sqrtf((float)together) * constant_bound(g, n, 1, 1.0f) + constant_bound(g, n, 2, 0.0f)) *
           ROUNDING;
}

/* The norm whose rows are those that the layer multiplies, NULL: none is. */
static const struct node *norm_of_rows(const struct clcnn_graph *g, const struct node *layer, int64_t length)
{
    const bool conv = layer->op == &op_conv;
    const struct value *v = &g->values[layer->in[0]];
    while (!conv && v->kind == VALUE_NODE && g->nodes[v->producer].op->alias && v->shape.rank > 0 &&
           v->shape.dim[v->shape.rank - 1] == length) /* the same rows in another shape */
        v = &g->values[g->nodes[v->producer].in[0]];
    const struct node *n = v->kind == VALUE_NODE ? &g->nodes[v->producer] : NULL;
    if (!n || normed_together(g, n) != length)
        return NULL;
    const int dim = ((const struct rows_norm_attrs *)n->attrs)->dim;
    return v->shape.dim[dim] == length && dim == (conv ? 1 : v->shape.rank - 1) ? n : NULL;
}

/* What the root of the sum of squares of a row that the layer multiplies is at most. */
static float row_length(const struct clcnn_graph *g, const struct node *layer, int64_t length)
{
    const float each = bound_of(g, layer->in[0]), root = sqrtf((float)length);
    const struct node *n = norm_of_rows(g, layer, length);
    if (!n || n->epi.act != ACT_none || n->epi.add >= 0)
        return root * each;
    /* all of the norm's row together are as large as one alone could be */
    return each + root * constant_bound(g, n, 2, 0.0f);
}

/* ---- products --------------------------------------------------------------------------------------------------- */

static float filter_bound(const float *w, int64_t length, float row)
{
    float sum[8] = {0.0f}, all = 0.0f;
    int64_t i = 0;
    for (; i + 8 <= length; i += 8)
        for (int e = 0; e < 8; e++)
            sum[e] += w[i + e] * w[i + e];
    for (; i < length; i++)
        sum[0] += w[i] * w[i];
    for (int e = 0; e < 8; e++)
        all += sum[e];
    return sqrtf(all) * row;
}

/* Filters of whole rows of their weights, by the inequality of Cauchy and Schwarz; NaN and infinity stay what they are. */
static float product_bound(const struct clcnn_graph *g, const struct node *n)
{
    const float *w = floats_of(g, n->in[1]), *bias = has(n, 2) ? floats_of(g, n->in[2]) : NULL;
    const struct clcnn_shape *s = &g->values[n->in[1]].shape;
    if (!w || (has(n, 2) && !bias) || !isfinite(bound_of(g, n->in[0])))
        return INFINITY;
    const int64_t length = shape_count_from(s, 1);
    const float row = row_length(g, n, length);
    float most = 0.0f;
    for (int32_t k = 0; k < s->dim[0]; k++) {
        const float one = filter_bound(w + k * length, length, row) + (bias ? fabsf(bias[k]) : 0.0f);
        if (!isfinite(one))
            return INFINITY;
        most = fmaxf(most, one);
    }
    return most * ROUNDING;
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

static float act_bound(enum act act, float p0, float p1, float x)
{
    switch (act) {
    case ACT_none:
    case ACT_relu:
    case ACT_hard_swish:
    case ACT_silu:
    case ACT_swish:
    case ACT_gelu:
    case ACT_gelu_tanh:
    case ACT_mish:
        return x;
    case ACT_star_relu:
        return fabsf(p0) * x * x + fabsf(p1);
    case ACT_relu6:
        return 6.0f;
    case ACT_sigmoid:
    case ACT_tanh:
    case ACT_hard_sigmoid:
        return 1.0f;
    case ACT_clip:
        return fmaxf(fabsf(p0), fabsf(p1));
    default:
        return INFINITY;
    }
}

static bool only_moves(const struct node *n)
{
    static const struct op_def *const moves[] = {
        &op_reshape, &op_flatten, &op_squeeze,  &op_unsqueeze, &op_transpose, &op_slice,
        &op_split,   &op_concat,  &op_identity, &op_dropout,   &op_max_pool,  &op_reorder,
    };
    for (int i = 0; i < COUNT_OF(moves); i++)
        if (n->op == moves[i])
            return true;
    return false;
}

static float padded_bound(const struct clcnn_graph *g, const struct node *n)
{
    return fmaxf(bound_of(g, n->in[0]), fabsf(((const struct pad_attrs *)n->attrs)->value));
}

static float moved_bound(const struct clcnn_graph *g, const struct node *n)
{
    float most = 0.0f;
    for (int i = 0; i < n->n_in; i++)
        most = fmaxf(most, bound_of(g, n->in[i]));
    return most;
}

static float node_bound(const struct clcnn_graph *g, const struct node *n)
{
    const int64_t together = normed_together(g, n);
    enum act act = ACT_none;
    float p0 = 0.0f, p1 = 0.0f;
    if (together)
        return norm_bound(g, n, together);
    if (n->op == &op_linear || n->op == &op_conv)
        return product_bound(g, n);
    if (n->op == &op_scaled_dot_product_attention) /* means of rows of v */
        return bound_of(g, n->in[2]) * ROUNDING;
    if (act_of_op(n->op, n->attrs, &act, &p0, &p1))
        return act_bound(act, p0, p1, bound_of(g, n->in[0]));
    return n->op == &op_pad ? padded_bound(g, n) : only_moves(n) ? moved_bound(g, n) : INFINITY;
}

/* What the epilogue makes of it: act(x + other), or act(x) times the other. */
static float epilogue_bound(const struct clcnn_graph *g, const struct node *n, float x)
{
    const float other = bound_of(g, n->epi.add);
    if (n->epi.add >= 0 && !n->epi.times)
        x += other;
    x = act_bound(n->epi.act, n->epi.p0, n->epi.p1, x);
    if (n->epi.add >= 0 && n->epi.times)
        x *= other;
    return isfinite(x) ? x : INFINITY; /* NaN where nothing times anything */
}

void graph_note_bounds(struct clcnn_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        g->values[i].bound = INFINITY;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        const float x = n->dead || n->n_in == 0 || n->in[0] < 0 ? INFINITY : node_bound(g, n);
        for (int o = 0; !n->dead && o < n->n_out; o++)
            g->values[n->out[o]].bound = isfinite(x) ? epilogue_bound(g, n, x) : INFINITY;
    }
}
