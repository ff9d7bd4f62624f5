/* rewrite_attention.c: softmax(q k^T * scale + masks) v, written as matrix products and a softmax, becomes attention:
 *
 *   matmul(q, k^T) [* or / a number] [+ masks] -> softmax along the last dimension -> matmul with v
 *
 * The scores may change their shape on the way, and nothing else may read them. q and k may be scaled. What only moves
 * the elements of q, k, v and of the result is left out, too: the operands become views. So do two masks where rows of k
 * are numbers of two digits, and each mask is one for all values of a digit (positions in a map that are relative along its
 * height and its width). */
#include "graph/match.h"
#include "graph/rewrite_views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM, HEAD, ROW, COLUMN };
enum { Q, K, V, MASK };
enum {
    MOST_MASKS = 3,
    MOST_NODES = 12, /* between the products */
};

struct mask {
    int value;
    struct clcnn_shape scores; /* where it is added */
};

struct attention {
    struct node *scores, *softmax, *product;
    struct node *between[MOST_NODES], *last;
    struct mask mask[MOST_MASKS];
    int n_between, masks;
    bool scaled; /* a factor stands between what comes before and the softmax */
    double scale;
    struct value_view operand[3], result;
    struct attention_attrs attrs;
};

/* ---- the scores ---------------------------------------------------------------------------------------- */

static bool same_matrices(const struct rewriter *r, int a, int b)
{
    const struct clcnn_shape *x = &r->g->values[a].shape, *y = &r->g->values[b].shape;
    return x->rank >= 2 && y->rank >= 2 && x->dim[x->rank - 1] == y->dim[y->rank - 1] &&
           x->dim[x->rank - 2] == y->dim[y->rank - 2];
}

/* A node that only changes the dimensions before the last two. */
static bool keeps_matrices(const struct rewriter *r, const struct node *n)
{
    return rewrite_is_reshape(n) && same_matrices(r, n->in[0], n->out[0]);
}

static bool find_scores(const struct rewriter *r, int value, struct attention *a);

/* One operand of the addition leads to the scores, the other one is a mask. */
static bool find_masked(const struct rewriter *r, struct node *add, struct attention *a)
{
    const struct clcnn_shape *y = &r->g->values[add->out[0]].shape;
    for (int i = 0; i < 2 && !a->scaled && a->masks < MOST_MASKS; i++) {
        struct attention tried = *a;
        if (!shape_equal(&r->g->values[add->in[i]].shape, y))
            continue;
        tried.mask[tried.masks++] = (struct mask){add->in[1 - i], *y};
        if (find_scores(r, add->in[i], &tried)) {
            *a = tried;
            return true;
        }
    }
    return false;
}

/* From the softmax's input back to the product that makes the scores. */
static bool find_scores(const struct rewriter *r, int value, struct attention *a)
{
    struct node *n = rewrite_sole_producer(r, value);
    double factor;
    if (!n || n->epi.act != ACT_none || n->epi.add >= 0)
        return false;
    if (rewrite_is(n, &op_matmul)) {
        a->scores = n;
        return true;
    }
    if (a->n_between == MOST_NODES)
        return false;
    a->between[a->n_between++] = n;
    if (rewrite_is_reshape(n))
        return find_scores(r, n->in[0], a);
    if (rewrite_is(n, &op_add))
        return find_masked(r, n, a);
    const int x = match_scaled(r, n, &factor);
    if (x < 0)
        return false;
    a->scaled = true;
    a->scale *= factor;
    return find_scores(r, n->in[x], a);
}

/* Two operands with the same leading dimensions, and the result's. */
static bool is_batched(const struct rewriter *r, const struct node *n)
{
    const struct clcnn_shape *a = &r->g->values[n->in[0]].shape, *b = &r->g->values[n->in[1]].shape;
    bool same = a->rank == b->rank && a->rank >= 2 && a->rank <= 4;
    for (int i = 0; same && i < a->rank - 2; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

static bool find_parts(const struct rewriter *r, struct node *product, struct attention *a)
{
    if (product->dead || !rewrite_is(product, &op_matmul) || !is_batched(r, product))
        return false;
    struct node *n = rewrite_sole_producer(r, product->in[0]);
    *a = (struct attention){.product = product, .last = product, .scale = 1.0};
    while (n && keeps_matrices(r, n) && a->n_between < MOST_NODES) {
        a->between[a->n_between++] = n;
        n = rewrite_sole_producer(r, n->in[0]);
    }
    if (!n || !rewrite_is(n, &op_softmax))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape;
    a->softmax = n;
    return ((const struct dim_attrs *)n->attrs)->dim == x->rank - 1 && find_scores(r, n->in[0], a) &&
           is_batched(r, a->scores) && same_matrices(r, a->scores->out[0], n->in[0]);
}

/* Sizes of all axes; the heads are the third dimension from the end where there are four. */
static bool find_sizes(const struct rewriter *r, struct attention *a)
{
    const struct value *v = r->g->values;
    const struct clcnn_shape *q = &v[a->scores->in[0]].shape, *b = &v[a->product->in[1]].shape;
    const struct clcnn_shape *scores = &v[a->scores->out[0]].shape, *weights = &v[a->softmax->in[0]].shape;
    const struct clcnn_shape *heads = scores->rank == 4 ? scores : weights->rank == 4 ? weights : b;
    int64_t all = shape_count(scores) / scores->dim[scores->rank - 2] / scores->dim[scores->rank - 1];
    int32_t *size = a->attrs.size;
    size[1] = heads->rank > 2 ? heads->dim[heads->rank - 3] : 1;
    size[0] = (int32_t)(all / size[1]);
    size[2] = scores->dim[scores->rank - 2];
    size[3] = scores->dim[scores->rank - 1];
    size[4] = q->dim[q->rank - 1];
    size[5] = b->dim[b->rank - 1];
    return b->dim[b->rank - 2] == size[3] && size[4] <= ATTENTION_MOST_COLUMNS &&
           size[5] <= ATTENTION_MOST_COLUMNS;
}

/* ---- operands and result as views ---------------------------------------------------------------------- */

/* Matrices one after the other: `turned`, the operand's rows are their columns. */
static struct value_view matrices(const struct attention *a, int value, int64_t rows, int64_t columns,
                                  bool turned)
{
    const int64_t matrix = rows * columns, size[] = {a->attrs.size[0], a->attrs.size[1], rows, columns},
                  stride[] = {matrix * a->attrs.size[1], matrix, turned ? 1 : columns, turned ? rows : 1};
    return view_of(value, size, stride);
}

/* Steps back as long as the operand stays a view with one stride for each axis, and over factors where there is a scale. */
static void step_back(const struct rewriter *r, struct value_view *operand, struct attention_view *strides,
                      double *scale)
{
    struct value_view view = *operand;
    double factor = 1.0, number;
    view_strides(r->g, operand, strides);
    for (;;) {
        const struct value *v = &r->g->values[view.value];
        const struct node *n = v->kind == VALUE_NODE ? &r->g->nodes[v->producer] : NULL;
        const int x = n && scale ? match_scaled(r, n, &number) : -1;
        if (x >= 0) {
            view.value = n->in[x];
            factor *= number;
        } else if (!view_before(r, &view)) {
            return;
        }
        struct attention_view found;
        if (!view_strides(r->g, &view, &found))
            continue;
        *operand = view;
        *strides = found;
        if (scale)
            *scale *= factor;
        factor = 1.0;
    }
}

/* The result may go where the next nodes would bring it. */
static void step_on(const struct rewriter *r, struct attention *a)
{
    struct value_view view = a->result;
    struct attention_view found;
    struct node *n = a->product;
    view_strides(r->g, &view, &a->attrs.out);
    while ((n = rewrite_sole_reader(r, view.value, n)) != NULL && view_after(r, n, &view)) {
        if (!view_strides(r->g, &view, &found))
            continue;
        a->result = view;
        a->attrs.out = found;
        a->last = n;
    }
}

static bool find_views(const struct rewriter *r, struct attention *a)
{
    const int32_t *size = a->attrs.size;
    a->operand[Q] = matrices(a, a->scores->in[0], size[2], size[4], false);
    a->operand[K] = matrices(a, a->scores->in[1], size[3], size[4], true);
    a->operand[V] = matrices(a, a->product->in[1], size[3], size[5], false);
    a->result = matrices(a, a->product->out[0], size[2], size[5], false);
    for (int i = Q; i <= V; i++)
        step_back(r, &a->operand[i], &a->attrs.in[i], i == V ? NULL : &a->scale);
    step_on(r, a);
    a->attrs.scale = (float)a->scale;
    return isfinite(a->attrs.scale);
}

/* ---- masks --------------------------------------------------------------------------------------------- */

static bool keeps_shape(const struct attention *a, const struct clcnn_shape *s)
{
    return s->rank >= 2 && s->dim[s->rank - 2] == a->attrs.size[2] && s->dim[s->rank - 1] == a->attrs.size[3];
}

/* The mask's sizes in four dimensions, of which the first may be a part of the items that comes again. */
static bool mask_sizes(const struct rewriter *r, const struct attention *a, const struct mask *m,
                       int32_t out[4])
{
    const struct clcnn_shape *s = &m->scores, *x = &r->g->values[m->value].shape;
    const int rank = s->rank, missing = rank - x->rank;
    int32_t size[CLCNN_MAX_RANK] = {0};
    if (x->dtype != CLCNN_FLOAT32 || missing < 0 || !keeps_shape(a, s))
        return false;
    for (int i = 0; i < rank; i++)
        size[i] = i < missing ? 1 : x->dim[i - missing];
    out[0] = out[1] = 1;
    out[2] = size[rank - 2];
    out[3] = size[rank - 1];
    if (rank > 2 && s->dim[rank - 3] == a->attrs.size[1]) {
        out[1] = size[rank - 3];
        int first = 0;
        while (first < rank - 3 && size[first] == 1)
            first++;
        for (; first < rank - 3; out[0] *= size[first++])
            if (size[first] != s->dim[first])
                return false;
    } else if (rank == 3 && size[0] > 1) { /* items and heads in one */
        out[0] = a->attrs.size[0];
        out[1] = a->attrs.size[1];
    } else {
        return rank <= 3;
    }
    return true;
}

/* A constant of these sizes behind reshapes; NULL when it is computed. */
static const float *mask_constant(const struct rewriter *r, int value)
{
    while (r->g->values[value].kind == VALUE_NODE) {
        const struct node *n = &r->g->nodes[r->g->values[value].producer];
        if (n->dead ||
            (!rewrite_is(n, &op_reshape) && !rewrite_is(n, &op_squeeze) && !rewrite_is(n, &op_unsqueeze)))
            return NULL;
        value = n->in[0];
    }
    return rewrite_is_constant(r, value) ? r->g->values[value].data : NULL;
}

static bool is_aligned(const struct clcnn_shape *s, const int32_t size[4])
{
    for (int i = 0; i < 4; i++)
        if ((i < 4 - s->rank ? 1 : s->dim[i - 4 + s->rank]) != size[i])
            return false;
    return s->rank <= 4;
}

/* sum[i] += the mask, repeated to the sum's sizes. */
static void add_mask(float *sum, const struct clcnn_shape *to, const float *mask, const int32_t size[4])
{
    for (int64_t i = 0; i < shape_count(to); i++) {
        int64_t at = 0, rest = i, step = 1;
        for (int d = 3; d >= 0; rest /= to->dim[d], step *= size[d], d--)
            at += rest % to->dim[d] % size[d] * step;
        sum[i] += mask[at];
    }
}

/* One value that holds all masks, -1 where there is none: the only one as it is, or the sum of constants. */
static enum clcnn_status join_masks(struct rewriter *r, const struct attention *a, bool *can, int *value)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_shape to = {.rank = 4, .dim = {1, 1, 1, 1}};
    int32_t size[MOST_MASKS][4];
    *value = -1;
    *can = true;
    for (int i = 0; i < a->masks && *can; i++) {
        *can = mask_sizes(r, a, &a->mask[i], size[i]);
        for (int d = 0; *can && d < 4; d++) {
            const int32_t more = size[i][d] > to.dim[d] ? size[i][d] : to.dim[d];
            *can = more % size[i][d] == 0 && more % to.dim[d] == 0;
            to.dim[d] = more;
        }
    }
    if (!*can || a->masks == 0)
        return CLCNN_OK;
    if (a->masks == 1 && is_aligned(&r->g->values[a->mask[0].value].shape, size[0])) {
        *value = a->mask[0].value;
        return CLCNN_OK;
    }
    for (int i = 0; i < a->masks; i++)
        *can = *can && mask_constant(r, a->mask[i].value);
    if (!*can)
        return CLCNN_OK;
    TRY(graph_owned_constant(r->g, &to, value, r->err));
    memset(r->g->values[*value].owned, 0, sizeof(float) * (size_t)shape_count(&to));
    for (int i = 0; i < a->masks; i++)
        add_mask(r->g->values[*value].owned, &to, mask_constant(r, a->mask[i].value), size[i]);
done:
    return st;
}

/* The only mask may be a sum of two of other shapes: they take its place. */
static void divide_mask(const struct rewriter *r, struct attention *a)
{
    const struct mask *m = &a->mask[0];
    const struct node *n = a->masks == 1 ? rewrite_sole_producer(r, m->value) : NULL;
    while (n && rewrite_is_reshape(n))
        n = rewrite_sole_producer(r, n->in[0]);
    if (!n || !rewrite_is(n, &op_add) || n->epi.act != ACT_none || n->epi.add >= 0)
        return;
    const struct clcnn_shape s = r->g->values[n->out[0]].shape;
    if (shape_count(&s) != shape_count(&m->scores))
        return;
    a->mask[1] = (struct mask){n->in[1], s};
    a->mask[0] = (struct mask){n->in[0], s};
    a->masks = 2;
}

/* A mask as a view of which one digit of the rows of k tells the column; 0: it is the higher one, 1: the lower one, -1: neither.
 * *wide: how many values the lower one has. */
static int find_digit(const struct rewriter *r, const struct attention *a, const struct mask *m,
                      struct value_view *view, int64_t *wide)
{
    const int32_t *size = a->attrs.size;
    struct view_axis *columns = &view->axis[COLUMN];
    *view = matrices(a, -1, size[2], size[3], false);
    if (r->g->values[m->value].shape.dtype != CLCNN_FLOAT32 ||
        !view_broadcast(r->g, view, &m->scores, m->value) || columns->n != 2)
        return -1;
    const int digit = columns->part[0].stride == 0;
    if (columns->part[1 - digit].stride != 0 || columns->part[digit].size > ATTENTION_MOST_COLUMNS)
        return -1;
    *wide = columns->part[1].size;
    columns->part[0] = columns->part[digit];
    columns->n = 1;
    for (int i = 0; i < VIEW_AXES; i++)
        if (view->axis[i].n == 1 && view->axis[i].part[0].stride == 0)
            view->axis[i].n = 0;
    return digit;
}

/* Two masks, each of which one digit tells: the lower one's first. */
static bool join_digits(const struct rewriter *r, struct attention *a, int *lower, int *higher)
{
    struct value_view view[2], found;
    struct attention_view unused;
    int64_t wide[2] = {0};
    bool seen[2] = {false};
    if (a->masks != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        const int digit = find_digit(r, a, &a->mask[i], &found, &wide[i]);
        if (digit < 0 || seen[digit] || !view_strides(r->g, &found, &unused))
            return false;
        seen[digit] = true;
        view[digit] = found;
    }
    if (wide[0] != wide[1])
        return false;
    for (int i = 0; i < 2; i++)
        step_back(r, &view[i], &a->attrs.mask[1 - i], NULL);
    a->attrs.wide = (int32_t)wide[0];
    *lower = view[1].value;
    *higher = view[0].value;
    return true;
}

/* ---- the node ------------------------------------------------------------------------------------------ */

static enum clcnn_status make_node(struct rewriter *r, const struct attention *a, int mask, int outer)
{
    char name[2 * CLCNN_NAME_MAX];
    const int inputs[] = {a->operand[Q].value, a->operand[K].value, a->operand[V].value, mask, outer};
    struct node *last = a->last;
    struct attention_attrs *attrs = clcnn_calloc(1, sizeof *attrs);
    int *in = clcnn_calloc(COUNT_OF(inputs), sizeof *in);
    snprintf(name, sizeof name, "%s+%s", a->scores->name, a->product->name);
    char *copy = clcnn_strdup(name);
    if (!attrs || !in || !copy) {
        free(attrs);
        free(in);
        free(copy);
        return clcnn_fail_mem(r->err, sizeof name);
    }
    *attrs = a->attrs;
    attrs->viewed = true;
    attrs->result = r->g->values[last->out[0]].shape;
    memcpy(in, inputs, sizeof inputs);
    free(last->in);
    free(last->attrs);
    free(last->name);
    last->in = in;
    last->n_in = COUNT_OF(inputs) - (outer < 0);
    last->attrs = attrs;
    last->name = copy;
    last->op = &op_scaled_dot_product_attention;
    last->dead = false;
    return CLCNN_OK;
}

/* Whether a view, or a mask, may have left the node out. */
static bool is_left_out(const struct node *n)
{
    const struct op_def *const ops[] = {&op_reshape,   &op_flatten, &op_squeeze, &op_unsqueeze,
                                        &op_transpose, &op_slice,   &op_split,   &op_gather,
                                        &op_mul,       &op_div,     &op_add};
    for (int i = 0; i < COUNT_OF(ops); i++)
        if (rewrite_is(n, ops[i]))
            return true;
    return false;
}

/* Nodes before `last` that were left out die once nothing reads them. A mask may have added a value to count. */
static enum clcnn_status drop_unread(struct rewriter *r, const struct node *last)
{
    const size_t bytes = ((size_t)r->g->n_values + 1) * sizeof *r->uses;
    free(r->uses);
    r->uses = clcnn_calloc(1, bytes);
    if (!r->uses)
        return clcnn_fail_mem(r->err, bytes);
    rewrite_count_uses(r);
    for (struct node *n = r->g->nodes + (last - r->g->nodes); n-- > r->g->nodes;) {
        bool stays = n->dead || !is_left_out(n);
        for (int i = 0; i < n->n_out && !stays; i++)
            stays = r->uses[n->out[i]] > 0;
        for (int i = 0; i < n->n_in && !stays; i++)
            if (n->in[i] >= 0)
                r->uses[n->in[i]]--;
        n->dead = n->dead || !stays;
    }
    return CLCNN_OK;
}

/* A part whose algorithm the user forces keeps its own node: what it may have by the same name is another algorithm. */
static bool is_forced(const struct rewriter *r, const struct attention *a)
{
    return rewrite_is_overridden(r, a->scores) || rewrite_is_overridden(r, a->softmax) ||
           rewrite_is_overridden(r, a->product);
}

static enum clcnn_status merge_attention(struct rewriter *r, struct attention *a)
{
    enum clcnn_status st = CLCNN_OK;
    bool can = true;
    int mask, outer = -1;
    struct attention divided = *a;
    divide_mask(r, &divided);
    if (join_digits(r, &divided, &mask, &outer))
        *a = divided;
    else
        TRY(join_masks(r, a, &can, &mask));
    if (!can)
        return CLCNN_OK;
    TRY(rewrite_note(r, "merge matmul %s, softmax %s and matmul %s into attention", a->scores->name,
                     a->softmax->name, a->product->name));
    for (struct node *n = a->product; n != a->last; n->dead = true)
        n = rewrite_sole_reader(r, n->out[0], n);
    a->scores->dead = a->softmax->dead = a->product->dead = true;
    for (int i = 0; i < a->n_between; i++)
        a->between[i]->dead = true;
    TRY(make_node(r, a, mask, outer));
    TRY(drop_unread(r, a->last));
done:
    return st;
}

enum clcnn_status rewrite_merge_attention(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct attention a;
        if (find_parts(r, &r->g->nodes[i], &a) && find_sizes(r, &a) && !is_forced(r, &a) && find_views(r, &a))
            TRY(merge_attention(r, &a));
    }
done:
    return st;
}
