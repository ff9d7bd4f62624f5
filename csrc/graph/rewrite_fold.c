/* rewrite_fold.c: identities disappear, and roundings of whole numbers; batch normalisation after a convolution, transposed or
 * not, or a linear layer, or after a concatenation of such, becomes part of their weights.
 *
 *   BN(conv(x)) = s * (w x + b - mean) + bias,  s = weight / sqrt(var + eps)   =>   w' = s w,  b' = s (b - mean) + bias
 */
#include "graph/bytes/whole_numbers.h"
#include "graph/rewrite.h"

#include <math.h>
#include <stdlib.h>

/* Whether dimensions keep their order. */
static bool keeps_order(const struct axes_attrs *a)
{
    for (int i = 0; i < a->axes.n; i++)
        if (a->axes.v[i] != i)
            return false;
    return true;
}

/* Operators that give x itself where x has the shape of the result. */
static const struct op_def *const same_by_shape[] = {
    &op_reshape, &op_flatten, &op_squeeze, &op_unsqueeze, &op_expand, &op_concat /* of one value */,
};

static bool is_ones(const struct rewriter *r, int value)
{
    const struct value *v = &r->g->values[value];
    if (!rewrite_is_constant(r, value) || v->shape.dtype != CLCNN_FLOAT32)
        return false;
    for (int64_t i = 0; i < shape_count(&v->shape); i++)
        if (((const float *)v->data)[i] != 1.0f)
            return false;
    return true;
}

/* The operand that a product with ones, or a quotient by them, gives; -1: there are none. */
static int operand_of_ones(const struct rewriter *r, const struct node *n)
{
    const bool product = rewrite_is(n, &op_mul);
    if (!product && !rewrite_is(n, &op_div))
        return -1;
    for (int k = product ? 0 : 1; k < 2; k++)
        if (shape_equal(&r->g->values[n->in[1 - k]].shape, &r->g->values[n->out[0]].shape) &&
            is_ones(r, n->in[k]))
            return 1 - k;
    return -1;
}

/* Whether a layer that could do something does nothing. */
static bool does_nothing(const struct clcnn_graph *g, const struct node *n)
{
    if (rewrite_is(n, &op_pad))
        return rewrite_all_equal(&((const struct pad_attrs *)n->attrs)->pads, 0);
    if (rewrite_is(n, &op_transpose))
        return keeps_order(n->attrs);
    const struct clcnn_shape *x = &g->values[n->in[0]].shape, *y = &g->values[n->out[0]].shape;
    if (!shape_equal(x, y))
        return false;
    if (rewrite_is(n, &op_cast))
        return x->dtype == y->dtype;
    if (rewrite_is(n, &op_slice))
        return rewrite_all_equal(&((const struct slice_attrs *)n->attrs)->steps, 1);
    for (int i = 0; i < COUNT_OF(same_by_shape); i++)
        if (rewrite_is(n, same_by_shape[i]))
            return true;
    return false;
}

/* The argument that y is: by the operator, since windows of adaptive pooling have one element each, or by attributes and
 * constants; -1: it is none. */
static int same_as(const struct rewriter *r, const struct whole_range *known, const struct node *n)
{
    if (rewrite_is(n, &op_adaptive_avg_pool) || rewrite_is(n, &op_adaptive_max_pool))
        return shape_equal(&r->g->values[n->in[0]].shape, &r->g->values[n->out[0]].shape) ? 0 : -1;
    if (rewrite_is(n, &op_identity) || rewrite_is(n, &op_dropout))
        return 0;
    if (rewrite_is_overridden(r, n))
        return -1;
    return does_nothing(r->g, n) || whole_numbers_stay(known, n) ? 0 : operand_of_ones(r, n);
}

/* Values are followed to what they stand for in one walk, since nodes are in order and there may be many identities. */
enum clcnn_status rewrite_drop_identities(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_graph *g = r->g;
    struct whole_range *known = NULL;
    int *same = clcnn_calloc((size_t)g->n_values + 1, sizeof *same);
    if (!same)
        TRY(clcnn_fail_mem(r->err, (size_t)g->n_values * sizeof *same));
    TRY(graph_whole_numbers(g, &known, r->err));
    for (int i = 0; i < g->n_values; i++)
        same[i] = i;
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *n = &g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0)
                n->in[k] = same[n->in[k]];
        const int k = n->dead ? -1 : same_as(r, known, n);
        if (k < 0)
            continue;
        same[n->out[0]] = n->in[k];
        n->dead = true;
        TRY(rewrite_note(r, "drop %s %s", n->op->name, n->name));
    }
    for (int i = 0; i < g->n_outputs; i++)
        g->outputs[i].value = same[g->outputs[i].value];
done:
    free(known);
    free(same);
    return st;
}

/* One producer with filters, and where they lie in its weights: [groups][before][filters][inner]. The first of them makes the
 * channel `first` of the normalisation. */
struct fold {
    int64_t groups, before, filters, inner, first;
};

bool rewrite_norm_is_constant(const struct rewriter *r, const struct node *bn)
{
    for (int i = 1; i < bn->n_in; i++)
        if (!rewrite_is_constant(r, bn->in[i]))
            return false;
    return true;
}

double rewrite_norm_scale(const struct clcnn_graph *g, const struct node *bn, int64_t channel)
{
    const float *gamma = g->values[bn->in[1]].data, *var = g->values[bn->in[4]].data;
    const double eps = ((const struct norm_attrs *)bn->attrs)->eps;
    return gamma[channel] / sqrt((double)var[channel] + eps);
}

double rewrite_norm_shift(const struct clcnn_graph *g, const struct node *bn, int64_t channel)
{
    const float *beta = g->values[bn->in[2]].data, *mean = g->values[bn->in[3]].data;
    return beta[channel] - rewrite_norm_scale(g, bn, channel) * mean[channel];
}

static bool foldable(const struct rewriter *r, const struct node *producer, const struct node *bn,
                     struct fold *f)
{
    if (!rewrite_norm_is_constant(r, bn))
        return false;
    const bool linear = rewrite_is(producer, &op_linear),
               transposed = rewrite_is(producer, &op_conv_transpose);
    if (!linear && !transposed && !rewrite_is(producer, &op_conv))
        return false;
    if (linear && r->g->values[bn->in[0]].shape.rank != 2)
        return false; /* its last dimension is not the channel */
    if (!rewrite_weights_are_constant(r, producer))
        return false;
    const struct clcnn_shape *w = &r->g->values[producer->in[1]].shape;
    *f = (struct fold){.groups = 1, .before = 1, .filters = w->dim[0], .inner = shape_count_from(w, 1)};
    if (transposed) { /* input channels come first */
        f->groups = ((const struct conv_attrs *)producer->attrs)->groups;
        f->before = w->dim[0] / f->groups;
        f->filters = w->dim[1];
        f->inner = shape_count_from(w, 2);
    }
    return true;
}

/* The reshape between bn and a linear layer whose rows it numbers anew, [.., C] to [rows, C], or NULL. */
static struct node *rows_between(const struct rewriter *r, const struct node *bn)
{
    struct node *view = rewrite_sole_producer(r, bn->in[0]);
    if (!view || !rewrite_is_reshape(view))
        return NULL;
    const struct node *linear = rewrite_sole_producer(r, view->in[0]);
    if (!linear || !rewrite_is(linear, &op_linear))
        return NULL;
    const struct clcnn_shape *x = &r->g->values[view->in[0]].shape, *y = &r->g->values[view->out[0]].shape;
    const bool same = x->rank > 0 && y->rank == 2 && y->dim[1] == x->dim[x->rank - 1];
    return same ? view : NULL;
}

/* Folds channels of bn into what computes them. */
static enum clcnn_status fold_into(struct rewriter *r, struct node *producer, const struct node *bn,
                                   const struct fold *f)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape filters = {.rank = 1, .dim = {(int32_t)(f->groups * f->filters)}};
    const float *w, *b;
    float *to_w, *to_b;
    TRY(rewrite_own_input(r, producer, 1, NULL, &w, &to_w));
    TRY(rewrite_own_input(r, producer, 2, &filters, &b, &to_b));
    for (int64_t k = 0; k < f->groups * f->filters; k++) {
        const double s = rewrite_norm_scale(r->g, bn, f->first + k);
        const int64_t group = k / f->filters, first = group * f->before * f->filters + k % f->filters;
        for (int64_t c = 0; c < f->before; c++) {
            const int64_t at = (first + c * f->filters) * f->inner;
            for (int64_t i = at; i < at + f->inner; i++)
                to_w[i] = (float)(s * w[i]);
        }
        to_b[k] = (float)(s * (b ? b[k] : 0.0) + rewrite_norm_shift(r->g, bn, f->first + k));
    }
    TRY(rewrite_note(r, "fold batch_norm %s into %s %s", bn->name, producer->op->name, producer->name));
done:
    return st;
}

/* What computes the i-th part of a concatenation, if bn can become part of it. */
static struct node *part_of(const struct rewriter *r, const struct node *concat, const struct node *bn, int i,
                            struct fold *f)
{
    struct node *producer = rewrite_sole_producer(r, concat->in[i]);
    return producer && foldable(r, producer, bn, f) ? producer : NULL;
}

/* Into all parts of a concatenation of channels, or into none. */
static enum clcnn_status fold_into_parts(struct rewriter *r, struct node *bn, struct node *concat)
{
    enum clcnn_status st = CLCNN_OK;
    struct fold f;
    if (!rewrite_is(concat, &op_concat) || ((const struct dim_attrs *)concat->attrs)->dim != 1)
        return CLCNN_OK;
    for (int i = 0; i < concat->n_in; i++)
        if (!part_of(r, concat, bn, i, &f))
            return CLCNN_OK;
    int64_t first = 0;
    for (int i = 0; i < concat->n_in; i++) {
        struct node *producer = part_of(r, concat, bn, i, &f);
        f.first = first;
        first += f.groups * f.filters;
        TRY(fold_into(r, producer, bn, &f));
    }
    rewrite_move(r, concat, bn);
done:
    return st;
}

enum clcnn_status rewrite_fold_batch_norm(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *bn = &r->g->nodes[i];
        if (bn->dead || !rewrite_is(bn, &op_batch_norm))
            continue;
        struct node *view = rows_between(r, bn);
        struct node *producer = rewrite_sole_producer(r, view ? view->in[0] : bn->in[0]);
        struct fold f;
        if (producer && foldable(r, producer, bn, &f)) {
            TRY(fold_into(r, producer, bn, &f));
            rewrite_move(r, view ? view : producer, bn);
        } else if (producer && !view) {
            TRY(fold_into_parts(r, bn, producer));
        }
    }
done:
    return st;
}
