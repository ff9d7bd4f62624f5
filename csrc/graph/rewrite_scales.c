/* rewrite_scales.c: a constant that multiplies or is added to what a layer with weights computes, one for each channel or one for
 * all, goes into the layer's weights and bias.
 *
 *   c (w x + b) + d   =>   w' = c w,  b' = c b + d
 *   w (c x + d) + b   =>   w' = w c,  b' = b + w d   d: no convolution that pads
 *   relu(w x + b) + d =>   max(w x + b', d),  b' = b + d    d one number
 *
 * Layers are convolutions, linear layers and normalisations; a transpose, of flattened pixels or not, may stand between the two, or
 * what only looks at signs (relu), if c is positive. Group normalisation is
 * recognised here too, since exporters write it as one of instances, which is scaled afterwards. */
#include "graph/match.h"

#include <math.h>
#include <stdlib.h>

/* The layer, and where its channels are in the output: dimensions first to last of what `via`, or the layer itself, gives. */
struct scaled {
    struct node *layer, *via;
    bool signs; /* via keeps factors that are positive */
    int first, last;
    int64_t channels, inner; /* inner: weights of a channel */
};

static bool is_rows_norm(const struct node *n)
{
    return rewrite_is(n, &op_layer_norm) || rewrite_is(n, &op_rms_norm);
}

static bool is_channel_norm(const struct node *n)
{
    return rewrite_is(n, &op_group_norm) || rewrite_is(n, &op_instance_norm) || rewrite_is(n, &op_batch_norm);
}

/* Where a layer has its channels; false for layers that take no scale. */
static bool channels_of(const struct rewriter *r, struct node *n, struct scaled *s)
{
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    const bool conv = rewrite_is(n, &op_conv), linear = rewrite_is(n, &op_linear);
    *s = (struct scaled){.layer = n, .via = n, .first = 1, .last = 1, .inner = 1};
    if (is_rows_norm(n)) {
        const struct rows_norm_attrs *a = n->attrs;
        s->first = a->dim;
        s->last = a->dim + a->dims - 1;
    } else if (linear) {
        s->first = s->last = y->rank - 1;
    } else if (!conv && !is_channel_norm(n)) {
        return false;
    }
    if (!rewrite_weights_are_constant(r, n))
        return false;
    if (conv || linear)
        s->inner = shape_count_from(&r->g->values[n->in[1]].shape, 1);
    s->channels = 1;
    for (int d = s->first; d <= s->last; d++)
        s->channels *= y->dim[d];
    return true;
}

/* The layer of which `n` only flattens the pixels, the channels staying where they are; else `n`. */
static struct node *before_flattening(const struct rewriter *r, struct node *n)
{
    struct node *layer = n && rewrite_is_reshape(n) ? rewrite_sole_producer(r, n->in[0]) : NULL;
    if (!layer || (!rewrite_is(layer, &op_conv) && !is_channel_norm(layer)))
        return n;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *y = &r->g->values[n->out[0]].shape;
    return y->rank > 2 && y->dim[0] == x->dim[0] && y->dim[1] == x->dim[1] ? layer : n;
}

/* Finds the layer that computes `value`, alone or by way of one transpose, perhaps of flattened pixels, or relu. */
static bool find_layer(const struct rewriter *r, int value, struct scaled *s)
{
    struct node *n = rewrite_sole_producer(r, value);
    const bool signs = n && (rewrite_is(n, &op_relu) || rewrite_is(n, &op_leaky_relu));
    const bool between = signs || (n && rewrite_is(n, &op_transpose));
    struct node *layer = between ? rewrite_sole_producer(r, n->in[0]) : n;
    if (between && !signs)
        layer = before_flattening(r, layer);
    if (!layer || !channels_of(r, layer, s))
        return false;
    if (!between)
        return true;
    s->signs = signs;
    if (signs) {
        s->via = n;
        return true;
    }
    const struct ints *perm = &((const struct axes_attrs *)n->attrs)->axes;
    const int was = s->first;
    s->via = n;
    for (int i = 0; i < perm->n; i++)
        if (perm->v[i] == was)
            s->first = i;
    const bool one = s->last == was;
    s->last = s->first;
    return one;
}

/* Whether a constant holds one number, or one for each channel. */
static bool is_for_channels(const struct rewriter *r, int constant, const struct scaled *s)
{
    if (!rewrite_is_constant(r, constant))
        return false;
    const struct clcnn_shape *c = &r->g->values[constant].shape, *y = &r->g->values[s->via->out[0]].shape;
    if (c->rank > y->rank || c->dtype != CLCNN_FLOAT32)
        return false;
    if (shape_count(c) == 1)
        return true;
    for (int i = 0; i < y->rank; i++) {
        const int k = i - (y->rank - c->rank);
        if ((k >= 0 ? c->dim[k] : 1) != (i >= s->first && i <= s->last ? y->dim[i] : 1))
            return false;
    }
    return true;
}

/* ---- new weights ------------------------------------------------------------------------------------------ */

struct numbers { /* one for each channel, or one for all */
    const float *at;
    bool one, inverse;
};

static double number(const struct numbers *c, int64_t channel)
{
    const double v = c->at[c->one ? 0 : channel];
    return c->inverse ? 1.0 / v : v;
}

static bool has_input(const struct node *n, int k)
{
    return n->n_in > k && n->in[k] >= 0;
}

/* Input k of the layer, a constant of its own with the shape of the old one, or where there was none of the channels. */
static enum clcnn_status own_input(struct rewriter *r, const struct scaled *s, int k, const float **old,
                                   float **to)
{
    const struct clcnn_shape *y = &r->g->values[s->layer->out[0]].shape;
    const struct rows_norm_attrs *rows = is_rows_norm(s->layer) ? s->layer->attrs : NULL;
    struct clcnn_shape shape = {.rank = 1, .dim = {(int32_t)s->channels}};
    if (rows) {
        shape.rank = rows->dims;
        for (int d = 0; d < rows->dims; d++)
            shape.dim[d] = y->dim[rows->dim + d];
    }
    return rewrite_own_input(r, s->layer, k, &shape, old, to);
}

static enum clcnn_status multiply(struct rewriter *r, const struct scaled *s, const struct numbers *c)
{
    enum clcnn_status st = CLCNN_OK;
    const float *old;
    float *to;
    TRY(own_input(r, s, 1, &old, &to));
    for (int64_t k = 0; k < s->channels; k++)
        for (int64_t i = k * s->inner; i < (k + 1) * s->inner; i++)
            to[i] = (float)(number(c, k) * (old ? old[i] : 1.0));
    if (!has_input(s->layer, 2))
        return CLCNN_OK;
    TRY(own_input(r, s, 2, &old, &to));
    for (int64_t k = 0; k < s->channels; k++)
        to[k] = (float)(number(c, k) * old[k]);
done:
    return st;
}

static enum clcnn_status add(struct rewriter *r, const struct scaled *s, const struct numbers *c, double sign)
{
    enum clcnn_status st = CLCNN_OK;
    const float *old;
    float *to;
    TRY(own_input(r, s, 2, &old, &to));
    for (int64_t k = 0; k < s->channels; k++)
        to[k] = (float)((old ? old[k] : 0.0) + sign * number(c, k));
done:
    return st;
}

/* ---- the pass --------------------------------------------------------------------------------------------- */

static bool is_scaling(const struct node *n)
{
    return rewrite_is(n, &op_mul) || rewrite_is(n, &op_div) || rewrite_is(n, &op_add) ||
           rewrite_is(n, &op_sub);
}

/* Which input of n is a layer's result, the other one being a constant for its channels; -1 when there is none. */
static int scaled_input(const struct rewriter *r, const struct node *n, struct scaled *s)
{
    const bool both = rewrite_is(n, &op_mul) || rewrite_is(n, &op_add);
    for (int k = 0; k < 1 + both; k++)
        if (find_layer(r, n->in[k], s) && is_for_channels(r, n->in[1 - k], s))
            return k;
    return -1;
}

static bool all_positive(const float *at, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(at[i] > 0.0f))
            return false;
    return true;
}

/* relu(x) + d is the larger one of x + d and d, if d is one number. */
static bool takes_shift(const struct scaled *s, const struct numbers *c)
{
    return !s->signs || (rewrite_is(s->via, &op_relu) && c->one && isfinite(c->at[0]));
}

static void limit_from(struct node *relu, float least)
{
    struct eltwise_attrs *a = relu->attrs;
    relu->op = &op_clip;
    a->p0 = least;
    a->p1 = INFINITY;
}

static enum clcnn_status take_scale(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    struct scaled s;
    const int k = scaled_input(r, n, &s);
    const bool factor = rewrite_is(n, &op_mul) || rewrite_is(n, &op_div);
    if (k < 0 || rewrite_is_overridden(r, n) || (!factor && rewrite_is(s.layer, &op_rms_norm)))
        return CLCNN_OK;
    const struct value *v = &r->g->values[n->in[1 - k]];
    const struct numbers c = {v->data, shape_count(&v->shape) == 1, rewrite_is(n, &op_div)};
    const double sign = rewrite_is(n, &op_sub) ? -1.0 : 1.0;
    if (factor ? s.signs && !all_positive(v->data, shape_count(&v->shape)) : !takes_shift(&s, &c))
        return CLCNN_OK;
    TRY(rewrite_note(r, "take %s %s into the weights of %s %s", n->op->name, n->name, s.layer->op->name,
                     s.layer->name));
    if (factor)
        TRY(multiply(r, &s, &c));
    else
        TRY(add(r, &s, &c, sign));
    if (!factor && s.signs)
        limit_from(s.via, (float)(sign * number(&c, 0)));
    rewrite_move(r, s.via, n);
done:
    return st;
}

/* What a convolution or a linear layer reads is multiplied by, or what is added to it. */
static enum clcnn_status take_before(struct rewriter *r, struct node *layer)
{
    enum clcnn_status st = CLCNN_OK;
    struct node *n = rewrite_sole_producer(r, layer->in[0]);
    if (!n || !is_scaling(n) || rewrite_is_overridden(r, n) || rewrite_is_overridden(r, layer))
        return CLCNN_OK;
    const bool factor = rewrite_is(n, &op_mul) || rewrite_is(n, &op_div), minus = rewrite_is(n, &op_sub);
    const int k = (rewrite_is(n, &op_mul) || rewrite_is(n, &op_add)) && rewrite_is_constant(r, n->in[0]);
    const int x = n->in[k], constant = n->in[1 - k];
    const struct clcnn_shape *shape = &r->g->values[x].shape;
    const bool columns = rewrite_is(layer, &op_linear);
    const int dim = columns ? shape->rank - 1 : 1;
    const struct scaled channels = {.via = n, .first = dim, .last = dim};
    if (!is_for_channels(r, constant, &channels) || !shape_equal(shape, &r->g->values[n->out[0]].shape))
        return CLCNN_OK;
    const struct value *v = &r->g->values[constant];
    const struct numbers c = {v->data, shape_count(&v->shape) == 1, rewrite_is(n, &op_div)};
    const int32_t count = shape->dim[dim];
    double *numbers = clcnn_calloc(2 * (size_t)count, sizeof *numbers); /* and as many zeros */
    if (!numbers)
        return clcnn_fail_mem(r->err, 2 * (size_t)count * sizeof *numbers);
    for (int32_t i = 0; i < count; i++)
        numbers[i] = (minus ? -1.0 : 1.0) * number(&c, i);
    const struct rewrite_affine a = {.channels = count,
                                     .last = columns,
                                     .scale = factor ? numbers : NULL,
                                     .shift = factor ? numbers + count : numbers};
    if (rewrite_takes_affine(r, layer, &a)) {
        TRY(rewrite_note(r, "take %s %s into the %s of %s %s", n->op->name, n->name,
                         factor ? "weights" : "bias", layer->op->name, layer->name));
        TRY(rewrite_take_affine(r, layer, &a));
        TRY(rewrite_set_input(r, layer, 0, x));
        match_remove(r, n);
    }
done:
    free(numbers);
    return st;
}

/* Of a sum of products first the one, then the other. */
static enum clcnn_status take_all_before(struct rewriter *r, struct node *layer)
{
    enum clcnn_status st = CLCNN_OK;
    for (int before = -1; before != layer->in[0];) {
        before = layer->in[0];
        TRY(take_before(r, layer));
    }
done:
    return st;
}

static bool is_all(const struct rewriter *r, int value, float wanted)
{
    if (value < 0)
        return true;
    if (!rewrite_is_constant(r, value))
        return false;
    const float *at = r->g->values[value].data;
    for (int64_t i = 0; i < shape_count(&r->g->values[value].shape); i++)
        if (at[i] != wanted)
            return false;
    return true;
}

/* reshape(instance_norm(reshape(x, [N, G, -1])), x), without weights. */
static enum clcnn_status match_group_norm(struct rewriter *r, struct node *last)
{
    struct node *norm = rewrite_sole_producer(r, last->in[0]);
    if (!norm || !rewrite_is(norm, &op_instance_norm) || !is_all(r, norm->in[1], 1.0f) ||
        !is_all(r, norm->in[2], 0.0f))
        return CLCNN_OK;
    struct node *first = rewrite_sole_producer(r, norm->in[0]);
    if (!first || !first->op->alias)
        return CLCNN_OK;
    const struct clcnn_shape *x = &r->g->values[first->in[0]].shape, *rows = &r->g->values[norm->in[0]].shape;
    struct match m = {0};
    match_add(&m, first);
    match_add(&m, norm);
    if (x->rank < 2 || x->dtype != CLCNN_FLOAT32 || rows->dim[0] != x->dim[0] ||
        x->dim[1] % rows->dim[1] != 0 || !shape_equal(x, &r->g->values[last->out[0]].shape) ||
        !match_closed(r, &m, last, &op_group_norm))
        return CLCNN_OK;
    const struct match_result result = {
        .op = &op_group_norm,
        .n_in = 3,
        .in = {first->in[0], -1, -1},
        .n_attrs = 2,
        .attrs = {{.name = "groups", .kind = CLCNN_ATTR_INT, .i = rows->dim[1]},
                  {.name = "eps",
                   .kind = CLCNN_ATTR_FLOAT,
                   .f = ((const struct rows_norm_attrs *)norm->attrs)->eps}},
    };
    return match_replace(r, &m, last, &result);
}

enum clcnn_status rewrite_take_scales(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead)
            continue;
        if (n->op->alias)
            TRY(match_group_norm(r, n));
        else if (is_scaling(n))
            TRY(take_scale(r, n));
        else if (rewrite_is(n, &op_conv) || rewrite_is(n, &op_linear))
            TRY(take_all_before(r, n)); /* after what computes its input had the chance */
    }
done:
    return st;
}
