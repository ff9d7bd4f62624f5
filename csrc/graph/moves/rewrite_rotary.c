/* rewrite_rotary.c: rotary position embeddings that were written out become one layer (EVA-02, DINOv3; J. Su et al., RoFormer, 2021):
 *
 *   x * cos + concat(-x[..., d/2:], x[..., :d/2]) * sin                        =>   rotary_embedding(x, cos, sin)
 *   x * cos + reshape(stack(-x[..., 1::2], x[..., ::2], dim=-1)) * sin         =>   the same, interleaved
 *   concat(x[..., :n, :], rotary_embedding(x[..., n:, :], cos, sin), dim=-2)   =>   rotary_embedding(x, cos', sin')
 *
 * with d columns; cos' and sin' begin with n rows of ones and zeros: class tokens are not turned. */
#include "graph/match.h"

#include <string.h>

static const struct clcnn_shape *shape_of(const struct rewriter *r, int value)
{
    return &r->g->values[value].shape;
}

static int32_t columns_of(const struct clcnn_shape *s)
{
    return s->dim[s->rank - 1];
}

static void add_once(struct match *m, struct node *n)
{
    for (int i = 0; i < m->n; i++)
        if (m->node[i] == n)
            return;
    match_add(m, n);
}

/* Every step-th element of dimension d of x, from the first on. */
struct part {
    int x;
    int32_t first, step;
};

static bool part_of(const struct rewriter *r, const struct node *slice, int d, struct part *part)
{
    const struct slice_attrs *a = slice->attrs;
    *part = (struct part){slice->in[0], a->starts.v[d], a->steps.v[d]};
    return match_slices_along(r, slice, d);
}

/* Whether `value` is half of the columns of something. */
static bool half_of(const struct rewriter *r, int value, struct match *m, struct part *part)
{
    const struct value *v = &r->g->values[value];
    struct node *n = v->kind == VALUE_NODE ? &r->g->nodes[v->producer] : NULL;
    const int last = v->shape.rank - 1;
    if (!n || n->dead || last < 1 || 2 * columns_of(&v->shape) != columns_of(shape_of(r, n->in[0])))
        return false;
    if (rewrite_is(n, &op_split) && n->n_out == 2 && ((const struct split_attrs *)n->attrs)->dim == last &&
        r->uses[value] == 1)
        *part = (struct part){n->in[0], value == n->out[1] ? v->shape.dim[last] : 0, 1};
    else if (!rewrite_is(n, &op_slice) || !part_of(r, n, last, part))
        return false;
    add_once(m, n);
    return true;
}

/* The value that this one is with other ones among its sizes, or negated. */
static int plain(const struct rewriter *r, int value, struct match *m, bool *negative)
{
    *negative = false;
    for (struct node *n = match_producer(r, value); n; n = match_producer(r, value)) {
        if (rewrite_is(n, &op_neg))
            *negative = !*negative;
        else if (!rewrite_is(n, &op_reshape) && !rewrite_is(n, &op_unsqueeze))
            break;
        match_add(m, n);
        value = n->in[0];
    }
    return value;
}

/* Operand k of a concatenation that turns pairs: the second halves, negated, then the first ones. */
static bool is_turned_half(const struct rewriter *r, const struct node *concat, int k, struct match *m,
                           bool interleaved, struct part *part)
{
    bool negative;
    const int value = plain(r, concat->in[k], m, &negative);
    const struct clcnn_shape *seen = shape_of(r, concat->in[k]), *own = shape_of(r, value);
    if (negative != (k == 0) || !half_of(r, value, m, part) || seen->rank != own->rank + interleaved ||
        memcmp(seen->dim, own->dim, (size_t)own->rank * sizeof *own->dim) != 0)
        return false;
    return part->step == (interleaved ? 2 : 1) && part->first == (k == 1        ? 0
                                                                  : interleaved ? 1
                                                                                : columns_of(own));
}

/* Whether `value` is what rotary_embedding turns x into: x, or -1. */
static int match_turned(const struct rewriter *r, int value, struct match *m, bool *interleaved)
{
    struct part part[2];
    struct node *reshape = match_op(r, value, &op_reshape);
    struct node *concat = match_op(r, reshape ? reshape->in[0] : value, &op_concat);
    const int rank = shape_of(r, value)->rank;
    if (!concat || concat->n_in != 2)
        return -1;
    const struct clcnn_shape *joined = shape_of(r, concat->out[0]);
    *interleaved = joined->rank == rank + 1;
    if (((const struct dim_attrs *)concat->attrs)->dim != joined->rank - 1)
        return -1;
    for (int k = 0; k < 2; k++)
        if (!is_turned_half(r, concat, k, m, *interleaved, &part[k]))
            return -1;
    if (part[0].x != part[1].x || !shape_equal(shape_of(r, part[0].x), shape_of(r, value)))
        return -1;
    if (reshape)
        match_add(m, reshape);
    match_add(m, concat);
    return part[0].x;
}

/* The shape of a table without the ones before, if it is how x ends. */
static bool table_shape(const struct clcnn_shape *table, const struct clcnn_shape *x, struct clcnn_shape *out)
{
    int ones = 0;
    while (table->rank - ones > 2 && table->dim[ones] == 1)
        ones++;
    *out = (struct clcnn_shape){.dtype = table->dtype, .rank = table->rank - ones};
    memcpy(out->dim, table->dim + ones, (size_t)out->rank * sizeof *out->dim);
    return out->rank >= 2 && out->rank <= x->rank &&
           memcmp(out->dim, x->dim + x->rank - out->rank, (size_t)out->rank * sizeof *out->dim) == 0;
}

/* Which operand of a product with x is a constant; -1: none. */
static int constant_beside(const struct rewriter *r, const struct node *mul, int x)
{
    for (int k = 0; k < 2; k++)
        if (mul->in[1 - k] == x && rewrite_is_constant(r, mul->in[k]))
            return k;
    return -1;
}

/* Gives a table this shape. */
static enum clcnn_status reshape_table(struct rewriter *r, int *table, const struct clcnn_shape *shape)
{
    return shape_equal(shape_of(r, *table), shape) ? CLCNN_OK : rewrite_reshaped(r, table, shape);
}

static enum clcnn_status become(struct rewriter *r, const struct match *m, struct node *last, int x,
                                const int table[2], bool interleaved)
{
    const struct match_result result = {
        .op = &op_rotary_embedding,
        .n_in = 3,
        .in = {x, table[0], table[1]},
        .n_attrs = 1,
        .attrs = {{.name = "interleaved", .kind = CLCNN_ATTR_BOOL, .i = interleaved}},
    };
    return match_replace(r, m, last, &result);
}

/* last = cosines + sines, the products. */
static enum clcnn_status match_rotary(struct rewriter *r, struct node *last, struct node *cosines,
                                      struct node *sines)
{
    enum clcnn_status st = CLCNN_OK;
    for (int k = 0; cosines && sines && cosines != sines && k < 2; k++) {
        struct match m = {0};
        bool interleaved;
        struct clcnn_shape shape[2];
        const int x = match_turned(r, sines->in[k], &m, &interleaved);
        if (x < 0 || !shape_equal(shape_of(r, x), shape_of(r, last->out[0])))
            continue;
        const int c = constant_beside(r, cosines, x), s = constant_beside(r, sines, sines->in[k]);
        match_add(&m, cosines);
        match_add(&m, sines);
        if (c < 0 || s < 0 || !table_shape(shape_of(r, cosines->in[c]), shape_of(r, x), &shape[0]) ||
            !table_shape(shape_of(r, sines->in[s]), shape_of(r, x), &shape[1]) ||
            !shape_equal(&shape[0], &shape[1]) || !match_closed(r, &m, last, &op_rotary_embedding))
            continue;
        TRY(reshape_table(r, &cosines->in[c], shape));
        TRY(reshape_table(r, &sines->in[s], shape));
        return become(r, &m, last, x, (const int[]){cosines->in[c], sines->in[s]}, interleaved);
    }
done:
    return st;
}

/* ---- rows before that are not turned ----------------------------------------------------------------------- */

/* The table with `rows` rows of `filling` before its own. */
static enum clcnn_status longer_table(struct rewriter *r, int table, int32_t rows, float filling, int *out)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_shape shape = *shape_of(r, table);
    const int32_t own = shape.dim[shape.rank - 2], columns = columns_of(&shape);
    const int64_t tables = shape_count(&shape) / ((int64_t)own * columns);
    shape.dim[shape.rank - 2] += rows;
    TRY(rewrite_constant(r, &shape, out));
    const float *from = r->g->values[table].data;
    float *to = r->g->values[*out].owned;
    for (int64_t i = 0; i < tables; i++) {
        for (int64_t k = 0; k < (int64_t)rows * columns; k++)
            *to++ = filling;
        for (int64_t k = 0; k < (int64_t)own * columns; k++)
            *to++ = *from++;
    }
done:
    return st;
}

/* last = concat(x[..., :n, :], rotary(x[..., n:, :])) */
static enum clcnn_status match_rows_before(struct rewriter *r, struct node *last)
{
    enum clcnn_status st = CLCNN_OK;
    struct match m = {0};
    struct part before, behind;
    int table[2];
    struct node *rotary = last->n_in == 2 ? match_op(r, last->in[1], &op_rotary_embedding) : NULL;
    const int d = shape_of(r, last->out[0])->rank - 2;
    if (!rotary || ((const struct dim_attrs *)last->attrs)->dim != d)
        return CLCNN_OK;
    struct node *first = match_op(r, last->in[0], &op_slice), *rest = match_op(r, rotary->in[0], &op_slice);
    if (!first || !rest || !part_of(r, first, d, &before) || !part_of(r, rest, d, &behind))
        return CLCNN_OK;
    const int32_t rows = shape_of(r, last->in[0])->dim[d];
    match_add(&m, first);
    match_add(&m, rest);
    match_add(&m, rotary);
    if (before.x != behind.x || before.first != 0 || before.step != 1 || behind.first != rows ||
        behind.step != 1 || !shape_equal(shape_of(r, before.x), shape_of(r, last->out[0])) ||
        !rewrite_is_constant(r, rotary->in[1]) || !rewrite_is_constant(r, rotary->in[2]) ||
        !match_closed(r, &m, last, &op_rotary_embedding))
        return CLCNN_OK;
    TRY(longer_table(r, rotary->in[1], rows, 1.0f, &table[0]));
    TRY(longer_table(r, rotary->in[2], rows, 0.0f, &table[1]));
    const struct rotary_attrs *a = rotary->attrs;
    return become(r, &m, last, before.x, table, a->interleaved != 0);
done:
    return st;
}

enum clcnn_status rewrite_find_rotary(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (!n->dead && rewrite_is(n, &op_add))
            for (int k = 0; k < 2 && rewrite_is(n, &op_add); k++)
                TRY(match_rotary(r, n, match_op(r, n->in[k], &op_mul), match_op(r, n->in[1 - k], &op_mul)));
        else if (!n->dead && rewrite_is(n, &op_concat))
            TRY(match_rows_before(r, n));
    }
done:
    return st;
}
