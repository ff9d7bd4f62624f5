/* rewrite_channels_last.c: layers between two transposes that undo each other work on the dimensions in their first order, and the
 * transposes are gone:
 *
 *   transpose(0,3,1,2) . f . transpose(0,2,3,1)   =>   f of the other dimension
 *
 * f may be element-wise functions, softmax, norms of one dimension, and linear layers, which become 1x1 convolutions (the blocks of
 * ConvNeXt, and norms of channels, as exporters write them), also two of the same input of which one is multiplied by the other. */
#include "graph/match.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BETWEEN = 24 };

/* Layers between the two, latest first. Dimension d of the first order is dimension perm[d] of theirs. */
struct between {
    struct node *node[MAX_BETWEEN];
    const struct ints *perm;
    int n;
};

static int place_of(const struct between *b, int dim)
{
    int d = 0;
    while (b->perm->v[d] != dim)
        d++;
    return d;
}

static bool is_arithmetic(const struct node *n)
{
    return rewrite_is(n, &op_add) || rewrite_is(n, &op_sub) || rewrite_is(n, &op_mul) ||
           rewrite_is(n, &op_div) || rewrite_is(n, &op_maximum) || rewrite_is(n, &op_minimum) ||
           rewrite_is(n, &op_pow);
}

/* Whether a constant beside a value of this rank varies along one dimension at most: *dim, or -1. */
static bool varies_along_one(const struct rewriter *r, int constant, int rank, int *dim)
{
    *dim = -1;
    if (!rewrite_is_constant(r, constant))
        return false;
    const struct clcnn_shape *c = &r->g->values[constant].shape;
    for (int k = 0; k < c->rank; k++) {
        if (c->dim[k] == 1)
            continue;
        if (*dim >= 0)
            return false;
        *dim = k + rank - c->rank;
    }
    return c->rank <= rank && c->dtype == CLCNN_FLOAT32;
}

/* Which input of n the transposed value may be: it keeps its shape, and the other one is such a constant. */
static int arithmetic_input(const struct rewriter *r, const struct node *n)
{
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    int dim;
    for (int k = 0; is_arithmetic(n) && k < 2; k++)
        if (shape_equal(&r->g->values[n->in[k]].shape, y) && varies_along_one(r, n->in[1 - k], y->rank, &dim))
            return k;
    return -1;
}

static bool is_row_norm(const struct node *n)
{
    return (rewrite_is(n, &op_layer_norm) || rewrite_is(n, &op_rms_norm) || rewrite_is(n, &op_l2_norm)) &&
           ((const struct rows_norm_attrs *)n->attrs)->dims == 1;
}

/* A linear layer whose outputs become channels: dimension 1, after the batch. Of maps, and on GPUs, where a convolution of rows is
 * as fast as a product, of sequences (the tokens that mixers mix). */
static bool is_pointwise(const struct rewriter *r, const struct node *n, const struct between *b)
{
    const int rank = r->g->values[n->out[0]].shape.rank;
    return rewrite_is(n, &op_linear) && (rank == 4 || (rank == 3 && r->options->gpu)) &&
           place_of(b, rank - 1) == 1 && b->perm->v[0] == 0 && rewrite_is_constant(r, n->in[1]) &&
           (n->n_in < 3 || n->in[2] < 0 || rewrite_is_constant(r, n->in[2]));
}

/* The layer by whose result n is multiplied, where it reads what n does, and no one else reads the result; NULL: none. */
static struct node *partner_of(const struct rewriter *r, const struct node *n, const struct between *b)
{
    struct node *p = n->epi.times ? rewrite_sole_producer(r, n->epi.add) : NULL;
    return p && is_pointwise(r, n, b) && is_pointwise(r, p, b) && p->in[0] == n->in[0] && p->epi.add < 0 &&
                   !rewrite_is_overridden(r, p)
               ? p
               : NULL;
}

/* The input by which a layer passes the transposed value on; -1 when it is none that may stand between. */
static int passing_input(const struct rewriter *r, const struct node *n, const struct between *b)
{
    if (n->epi.add >= 0 && !partner_of(r, n, b))
        return -1;
    if (n->n_out != 1 || r->g->values[n->out[0]].shape.dtype != CLCNN_FLOAT32 || rewrite_is_overridden(r, n))
        return -1;
    if (eltwise_is_unary(n->op))
        return r->g->values[n->in[0]].shape.dtype == CLCNN_FLOAT32 ? 0 : -1;
    if (rewrite_is(n, &op_softmax) || rewrite_is(n, &op_log_softmax) || is_row_norm(n) ||
        is_pointwise(r, n, b))
        return 0;
    return arithmetic_input(r, n);
}

/* The live node that computes `value` for so many readers; NULL where there are others. */
static struct node *producer_for(const struct rewriter *r, int value, int readers)
{
    struct node *n = match_producer(r, value);
    return n && r->uses[value] == readers ? n : NULL;
}

/* Collects what is above transpose `last`, up to the one that it undoes; that one, or NULL. */
static struct node *other_transpose(const struct rewriter *r, const struct node *last, struct between *b)
{
    const int rank = r->g->values[last->out[0]].shape.rank;
    int value = last->in[0], readers = 1;
    *b = (struct between){.perm = &((const struct axes_attrs *)last->attrs)->axes};
    for (struct node *n; b->n < MAX_BETWEEN && (n = producer_for(r, value, readers)); b->node[b->n++] = n) {
        const int k = passing_input(r, n, b);
        if (k < 0)
            break;
        value = n->in[k];
        readers = partner_of(r, n, b) ? 2 : 1;
    }
    struct node *first = b->n ? match_op(r, value, &op_transpose) : NULL;
    for (int d = 0; first && d < rank; d++)
        if (((const struct axes_attrs *)first->attrs)->axes.v[b->perm->v[d]] != d)
            return NULL;
    return first;
}

/* ---- changing the layers ---------------------------------------------------------------------------------- */

/* A constant operand, of n dimensions of which one varies, in the first order. */
static enum clcnn_status turn_constant(struct rewriter *r, int *constant, const struct between *b)
{
    struct clcnn_shape shape = {.rank = b->perm->n};
    int dim;
    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = 1;
    if (!varies_along_one(r, *constant, shape.rank, &dim) || dim < 0)
        return CLCNN_OK;
    shape.dim[place_of(b, dim)] = (int32_t)shape_count(&r->g->values[*constant].shape);
    return rewrite_reshaped(r, constant, &shape);
}

/* The linear layer is a 1x1 convolution of the same weights. */
static enum clcnn_status to_conv(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    struct conv_attrs *a = clcnn_calloc(1, sizeof *a);
    int *in = clcnn_calloc(3, sizeof *in);
    if (!a || !in)
        TRY(clcnn_fail_mem(r->err, sizeof *a));
    struct clcnn_shape w = r->g->values[n->in[1]].shape;
    w.rank = r->g->values[n->out[0]].shape.rank;
    w.dim[2] = w.dim[3] = 1;
    TRY(rewrite_reshaped(r, &n->in[1], &w));
    const int spatial = w.rank - 2;
    *a = (struct conv_attrs){
        .stride = {.n = spatial, .v = {1, 1}},
        .padding = {.n = 2 * spatial},
        .dilation = {.n = spatial, .v = {1, 1}},
        .output_padding = {.n = spatial},
        .groups = 1,
    };
    for (int k = 0; k < 3; k++)
        in[k] = k < n->n_in ? n->in[k] : -1;
    free(n->attrs);
    free(n->in);
    n->attrs = a;
    n->in = in;
    n->n_in = 3;
    n->op = &op_conv;
    return CLCNN_OK;
done:
    free(a);
    free(in);
    return st;
}

/* Lets a layer work on the first order; its shapes have been changed. */
static enum clcnn_status turn(struct rewriter *r, struct node *n, int input, const struct between *b)
{
    if (rewrite_is(n, &op_linear))
        return to_conv(r, n);
    if (rewrite_is(n, &op_softmax) || rewrite_is(n, &op_log_softmax)) {
        struct dim_attrs *a = n->attrs;
        a->dim = place_of(b, a->dim);
    } else if (is_row_norm(n)) {
        struct rows_norm_attrs *a = n->attrs;
        a->dim = place_of(b, a->dim);
    } else if (n->n_in == 2) {
        return turn_constant(r, &n->in[1 - input], b);
    }
    return CLCNN_OK;
}

/* A layer and what it gives. The earliest one reads what was transposed first. */
static enum clcnn_status turn_layer(struct rewriter *r, struct node *n, int input, bool earliest,
                                    const struct node *first, const struct between *b)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    const struct clcnn_shape was = *y;
    TRY(turn(r, n, input, b));
    if (earliest) {
        r->uses[n->in[input]]--;
        r->uses[first->in[0]]++;
        n->in[input] = first->in[0];
    }
    y = &r->g->values[n->out[0]].shape;
    for (int d = 0; d < b->perm->n; d++)
        y->dim[d] = was.dim[b->perm->v[d]];
done:
    return st;
}

/* From the latest layer on, each reads what the one before it gives. */
static enum clcnn_status turn_all(struct rewriter *r, struct node *last, const struct node *first,
                                  struct between *b)
{
    enum clcnn_status st = CLCNN_OK;
    const struct ints perm = *b->perm;
    b->perm = &perm;
    for (int i = 0; i < b->n; i++) {
        struct node *n = b->node[i], *partner = partner_of(r, n, b);
        const int input = passing_input(r, n, b);
        if (partner)
            TRY(turn_layer(r, partner, 0, i == b->n - 1, first, b));
        TRY(turn_layer(r, n, input, i == b->n - 1, first, b));
    }
    rewrite_move(r, b->node[0], last);
done:
    return st;
}

enum clcnn_status rewrite_cancel_transposes(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *last = &r->g->nodes[i];
        struct between b;
        if (last->dead || !rewrite_is(last, &op_transpose) || rewrite_is_overridden(r, last))
            continue;
        struct node *first = other_transpose(r, last, &b);
        if (!first || rewrite_is_overridden(r, first))
            continue;
        TRY(rewrite_note(r, "let %d layers up to %s %s work without transposes %s and %s", b.n,
                         b.node[0]->op->name, b.node[0]->name, first->name, last->name));
        TRY(turn_all(r, last, first, &b));
        if (r->uses[first->out[0]] == 0)
            match_remove(r, first);
    }
done:
    return st;
}
