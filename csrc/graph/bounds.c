/* bounds.c: how large values can get, where norms and constant weights say so: |x| <= bounds[value] for each element, whatever the
 * inputs are, unless one of them is not finite. Infinity where nothing is known. */
#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>

#define ROUNDING 1.01f /* what sums of rounded products may be more than exact ones */

struct bounder {
    const struct clcnn_graph *g;
    float *bounds;
};

static float bound_of(const struct bounder *b, int value)
{
    return value < 0 ? 0.0f : b->bounds[value];
}

static const float *floats_of(const struct bounder *b, int value)
{
    const struct value *v = &b->g->values[value];
    return v->kind == VALUE_CONSTANT && v->shape.dtype == CLCNN_FLOAT32 ? v->data : NULL;
}

/* The largest size among them; infinite where one is not finite. */
static float largest(const float *x, int64_t count)
{
    float most = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return INFINITY;
        most = fmaxf(most, fabsf(x[i]));
    }
    return most;
}

static float constant_bound(const struct bounder *b, int value)
{
    const float *x = value < 0 ? NULL : floats_of(b, value);
    return value < 0 ? 0.0f : x ? largest(x, shape_count(&b->g->values[value].shape)) : INFINITY;
}

static bool has(const struct node *n, int input)
{
    return input < n->n_in && n->in[input] >= 0;
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
static float norm_bound(const struct bounder *b, const struct node *n, int64_t together)
{
    const float weight = has(n, 1) ? constant_bound(b, n->in[1]) : 1.0f,
                bias = has(n, 2) ? constant_bound(b, n->in[2]) : 0.0f;
    return (sqrtf((float)together) * weight + bias) * ROUNDING;
}

/* The norm whose rows are those that the layer multiplies, NULL: none is. */
static const struct node *norm_of_rows(const struct clcnn_graph *g, const struct node *layer, int64_t length)
{
    const bool conv = layer->op == &op_conv;
    const struct value *v = &g->values[layer->in[0]];
    while (!conv && v->kind == VALUE_NODE &&
           g->nodes[v->producer].op->alias && /* the same rows in another shape */
           v->shape.dim[v->shape.rank - 1] == length)
        v = &g->values[g->nodes[v->producer].in[0]];
    const struct node *n = v->kind == VALUE_NODE ? &g->nodes[v->producer] : NULL;
    if (!n || normed_together(g, n) != length)
        return NULL;
    const int dim = ((const struct rows_norm_attrs *)n->attrs)->dim;
    return v->shape.dim[dim] == length && dim == (conv ? 1 : v->shape.rank - 1) ? n : NULL;
}

/* What the root of the sum of squares of a row that the layer multiplies is at most. */
static float row_length(const struct bounder *b, const struct node *layer, int64_t length)
{
    const float each = bound_of(b, layer->in[0]), root = sqrtf((float)length);
    const struct node *n = norm_of_rows(b->g, layer, length);
    if (!n || n->epi.act != ACT_none || n->epi.add >= 0)
        return root * each;
    /* all of the norm's row together are as large as one alone could be */
    return each + root * (has(n, 2) ? constant_bound(b, n->in[2]) : 0.0f);
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
static float product_bound(const struct bounder *b, const struct node *n)
{
    const float *w = floats_of(b, n->in[1]), *bias = has(n, 2) ? floats_of(b, n->in[2]) : NULL;
    const struct clcnn_shape *s = &b->g->values[n->in[1]].shape;
    if (!w || (has(n, 2) && !bias) || !isfinite(bound_of(b, n->in[0])))
        return INFINITY;
    const int64_t length = shape_count_from(s, 1);
    const float row = row_length(b, n, length);
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
    case ACT_gelu:
    case ACT_gelu_tanh:
        return x;
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

static float padded_bound(const struct bounder *b, const struct node *n)
{
    return fmaxf(bound_of(b, n->in[0]), fabsf(((const struct pad_attrs *)n->attrs)->value));
}

static float moved_bound(const struct bounder *b, const struct node *n)
{
    float most = 0.0f;
    for (int i = 0; i < n->n_in; i++)
        most = fmaxf(most, bound_of(b, n->in[i]));
    return most;
}

static float node_bound(const struct bounder *b, const struct node *n)
{
    const int64_t together = normed_together(b->g, n);
    enum act act = ACT_none;
    float p0 = 0.0f, p1 = 0.0f;
    if (together)
        return norm_bound(b, n, together);
    if (n->op == &op_linear || n->op == &op_conv)
        return product_bound(b, n);
    if (n->op == &op_scaled_dot_product_attention) /* means of rows of v */
        return bound_of(b, n->in[2]) * ROUNDING;
    if (act_of_op(n->op, n->attrs, &act, &p0, &p1))
        return act_bound(act, p0, p1, bound_of(b, n->in[0]));
    return n->op == &op_pad ? padded_bound(b, n) : only_moves(n) ? moved_bound(b, n) : INFINITY;
}

/* What the epilogue makes of it: act(x + other), or act(x) times the other. */
static float epilogue_bound(const struct bounder *b, const struct node *n, float x)
{
    const float other = bound_of(b, n->epi.add);
    if (n->epi.add >= 0 && !n->epi.times)
        x += other;
    x = act_bound(n->epi.act, n->epi.p0, n->epi.p1, x);
    if (n->epi.add >= 0 && n->epi.times)
        x *= other;
    return isfinite(x) ? x : INFINITY; /* NaN where nothing times anything */
}

void graph_find_bounds(const struct clcnn_graph *g, float *bounds)
{
    const struct bounder b = {g, bounds};
    for (int i = 0; i < g->n_values; i++)
        bounds[i] = INFINITY;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        const float x = n->dead || n->n_in == 0 || n->in[0] < 0 ? INFINITY : node_bound(&b, n);
        for (int o = 0; !n->dead && o < n->n_out; o++)
            bounds[n->out[o]] = isfinite(x) ? epilogue_bound(&b, n, x) : INFINITY;
    }
}
