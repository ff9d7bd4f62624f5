/* rewrite_products.c: matrix products with constant weights become linear layers, whose algorithms take a bias and pack the
 * weights once; and so do convolutions whose filters cover the whole map, which have one sum a filter, with any weights.
 *
 *   matmul(x, W[K,N])                      =>  linear(x, W transposed)
 *   gemm(x, W, c[N]), no factors           =>  linear(x, W, or its transpose, c)
 *   linear(x, W) + b, b a constant row     =>  linear(x, W, b)
 *   conv(x[N,C,H,W], w[K,C,H,W], b)        =>  linear(x[N,CHW], w[K,CHW], b) as [N,K,1,1]
 */
#include "base/transpose.h"
#include "graph/rewrite.h"

#include <stdlib.h>
#include <string.h>

/* ---- matrix products --------------------------------------------------------------------------------------- */

/* The room for a copy of so many bytes, which serves all that are transposed in place; NULL: no memory. */
static float *scratch(struct rewriter *r, size_t bytes)
{
    if (r->scratch_bytes < bytes) {
        free(r->scratch);
        r->scratch = clcnn_calloc(bytes, 1);
        r->scratch_bytes = r->scratch != NULL ? bytes : 0;
    }
    return r->scratch;
}

/* *w_t: a constant with the transpose of w, a matrix: in its place if that is ours to give, since new pages take longer
 * than the copy. */
static enum clcnn_status transposed(struct rewriter *r, int w, int *w_t)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape from = r->g->values[w].shape,
                             to = {.rank = 2, .dtype = from.dtype, .dim = {from.dim[1], from.dim[0]}};
    float *const place = r->uses[w] == 1 ? r->g->values[w].donated : NULL;
    if (place == NULL) {
        TRY(graph_owned_constant(r->g, &to, w_t, r->err));
        transpose_floats(r->g->values[*w_t].owned, r->g->values[w].data, from.dim[0], from.dim[1]);
        return CLCNN_OK;
    }
    float *copy = scratch(r, shape_bytes(&to));
    if (copy == NULL)
        return clcnn_fail_mem(r->err, shape_bytes(&to));
    TRY(graph_constant_in_place(r->g, w, &to, w_t, r->err));
    transpose_floats(copy, place, from.dim[0], from.dim[1]);
    memcpy(place, copy, shape_bytes(&to));
done:
    return st;
}

/* Makes n a linear layer of x, w and b (-1: none). */
static enum clcnn_status to_linear(struct rewriter *r, struct node *n, int x, int w, int b)
{
    int *in = clcnn_calloc(3, sizeof *in);
    if (!in)
        return clcnn_fail_mem(r->err, 3 * sizeof *in);
    free(n->in);
    free(n->attrs);
    n->attrs = NULL;
    n->in = in;
    in[0] = x;
    in[1] = w;
    in[2] = b;
    n->n_in = 3;
    n->op = &op_linear;
    return CLCNN_OK;
}

static enum clcnn_status from_matmul(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    const int w = n->in[1];
    int w_t = -1;
    if (!rewrite_is_constant(r, w) || r->g->values[w].shape.rank != 2 || rewrite_is_constant(r, n->in[0]))
        return CLCNN_OK;
    TRY(rewrite_note(r, "turn matmul %s of constant weights into a linear layer", n->name));
    TRY(transposed(r, w, &w_t));
    TRY(to_linear(r, n, n->in[0], w_t, -1));
done:
    return st;
}

/* Whether c is a row of N values, or absent. */
static bool is_bias(const struct rewriter *r, int c, int32_t columns)
{
    if (c < 0)
        return true;
    const struct clcnn_shape *s = &r->g->values[c].shape;
    return s->rank == 1 && s->dim[0] == columns;
}

static enum clcnn_status from_gemm(struct rewriter *r, struct node *n)
{
    enum clcnn_status st = CLCNN_OK;
    const struct gemm_attrs *a = n->attrs;
    const int w = n->in[1], c = a->beta != 0.0f ? n->in[2] : -1;
    int w_t = w;
    if (!rewrite_is_constant(r, w) || rewrite_is_constant(r, n->in[0]) || a->trans_a || a->alpha != 1.0f ||
        (c >= 0 && a->beta != 1.0f) || !is_bias(r, c, r->g->values[n->out[0]].shape.dim[1]))
        return CLCNN_OK;
    TRY(rewrite_note(r, "turn gemm %s of constant weights into a linear layer", n->name));
    if (!a->trans_b)
        TRY(transposed(r, w, &w_t));
    TRY(to_linear(r, n, n->in[0], w_t, c));
done:
    return st;
}

/* The constant row b as a bias of `columns` values: the same constant, or a copy of another shape. */
static enum clcnn_status bias_of(struct rewriter *r, int b, int32_t columns, int *bias)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape shape = {.rank = 1, .dtype = r->g->values[b].shape.dtype, .dim = {columns}};
    *bias = b;
    if (r->g->values[b].shape.rank == 1)
        return CLCNN_OK;
    TRY(graph_owned_constant(r->g, &shape, bias, r->err));
    memcpy(r->g->values[*bias].owned, r->g->values[b].data, shape_bytes(&shape));
done:
    return st;
}

/* Whether `b` is a constant with one value for each column of the layer, which has `shape`: not one for each row. */
static bool is_constant_row(const struct rewriter *r, int b, const struct clcnn_shape *shape)
{
    if (!rewrite_is_constant(r, b))
        return false;
    const struct clcnn_shape *s = &r->g->values[b].shape;
    return s->rank >= 1 && s->rank <= shape->rank && s->dim[s->rank - 1] == shape->dim[shape->rank - 1] &&
           shape_count(s) == s->dim[s->rank - 1];
}

static enum clcnn_status take_bias(struct rewriter *r, struct node *add)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < 2; i++) {
        struct node *p = rewrite_sole_producer(r, add->in[i]);
        const struct clcnn_shape *shape = &r->g->values[add->in[i]].shape;
        if (!p || !rewrite_is(p, &op_linear) || p->in[2] >= 0 || p->epi.add >= 0 || p->epi.act != ACT_none ||
            !is_constant_row(r, add->in[1 - i], shape))
            continue;
        const int32_t columns = shape->dim[shape->rank - 1];
        int bias = -1;
        TRY(rewrite_note(r, "take add %s into linear %s as its bias", add->name, p->name));
        TRY(bias_of(r, add->in[1 - i], columns, &bias));
        TRY(to_linear(r, p, p->in[0], p->in[1], bias));
        rewrite_move(r, p, add);
        break;
    }
done:
    return st;
}

enum clcnn_status rewrite_products(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (n->dead)
            continue;
        if (rewrite_is(n, &op_matmul) && !rewrite_is_forced(r, n, &op_linear))
            TRY(from_matmul(r, n));
        else if (rewrite_is(n, &op_gemm) && !rewrite_is_forced(r, n, &op_linear))
            TRY(from_gemm(r, n));
        else if (rewrite_is(n, &op_add))
            TRY(take_bias(r, n));
    }
done:
    return st;
}

/* ---- convolutions of whole maps ----------------------------------------------------------------------------- */

/* Whether a filter meets each pixel once. Maps of a single pixel stay: other rewrites know 1x1 convolutions. */
static bool covers_map(const struct rewriter *r, const struct node *n)
{
    if (n->dead || !rewrite_is(n, &op_conv) || rewrite_is_constant(r, n->in[0]))
        return false;
    const struct conv_attrs *a = n->attrs;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *w = &r->g->values[n->in[1]].shape;
    for (int d = 2; d < x->rank; d++)
        if (w->dim[d] != x->dim[d])
            return false;
    return a->groups == 1 && rewrite_all_equal(&a->padding, 0) && shape_count_from(w, 2) > 1 &&
           shape_count_from(w, 1) <= INT32_MAX;
}

/* Makes a value rows: a constant itself, another one through a reshape. */
static enum clcnn_status as_rows(struct rewriter *r, const char *layer, const char *what, int *value)
{
    const struct clcnn_shape s = r->g->values[*value].shape;
    const struct clcnn_shape rows = {
        .rank = 2, .dtype = s.dtype, .dim = {s.dim[0], (int32_t)shape_count_from(&s, 1)}};
    const struct shape_attrs attrs = {.shape = {.n = 2, .v = {rows.dim[0], rows.dim[1]}}};
    return rewrite_is_constant(r, *value) ? rewrite_reshaped(r, value, &rows)
                                          : rewrite_append(r, &op_reshape, layer, what, &attrs, value);
}

/* Appends what computes node i's output. */
static enum clcnn_status from_conv(struct rewriter *r, int i)
{
    enum clcnn_status st = CLCNN_OK;
    const struct node conv = r->g->nodes[i];
    const struct clcnn_shape y = r->g->values[conv.out[0]].shape;
    struct shape_attrs map = {.shape = {.n = y.rank}};
    struct epilogue epi = conv.epi;
    int in[3] = {conv.in[0], conv.in[1], conv.n_in > 2 ? conv.in[2] : -1}, value = -1;
    for (int d = 0; d < y.rank; d++)
        map.shape.v[d] = y.dim[d];

    TRY(rewrite_note(r, "turn conv %s of whole maps into a linear layer", conv.name));
    TRY(as_rows(r, conv.name, "rows", &in[0]));
    TRY(as_rows(r, conv.name, "filters", &in[1]));
    if (epi.add >= 0)
        TRY(as_rows(r, conv.name, "other", &epi.add));
    TRY(graph_append(r->g, &op_linear, conv.name, "", in, 3, &value, r->err));
    r->g->nodes[r->g->n_nodes - 1].epi = epi;
    r->g->nodes[r->g->n_nodes - 1].zeros = conv.zeros;
    TRY(rewrite_append(r, &op_reshape, conv.name, "map", &map, &value));
    rewrite_take_result(r, &r->g->nodes[r->g->n_nodes - 1], &r->g->nodes[i]);
done:
    return st;
}

enum clcnn_status rewrite_whole_maps(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct places places = places_of(r);
    for (int i = 0; i < places.nodes; i++) {
        if (!covers_map(r, &r->g->nodes[i]) || rewrite_is_forced(r, &r->g->nodes[i], &op_linear))
            continue;
        TRY(from_conv(r, i));
        TRY(places_add(r, &places, i));
        TRY(rewrite_count_anew(r)); /* the next one may share its weights */
    }
    TRY(places_take(r, &places));
done:
    free(places.of);
    return st;
}
