/* rewrite_attention_masks.c: what is added to the scores of attention, as one mask or as two; see rewrite_attention.h. */
#include "graph/rewrite_attention.h"

#include <string.h>

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

/* sum[i] += the mask, repeated to the sum's sizes; row by row, which masks are long in. */
static void add_mask(float *sum, const struct clcnn_shape *to, const float *mask, const int32_t size[4])
{
    const int64_t wide = to->dim[3];
    for (int64_t row = 0; row < shape_count(to) / wide; row++, sum += wide) {
        int64_t at = 0, rest = row, step = size[3];
        for (int d = 2; d >= 0; rest /= to->dim[d], step *= size[d], d--)
            at += rest % to->dim[d] % size[d] * step;
        if (size[3] == 1)
            for (int64_t i = 0; i < wide; i++)
                sum[i] += mask[at];
        else
            for (int64_t i = 0; i < wide; i += size[3])
                for (int64_t j = 0; j < size[3]; j++)
                    sum[i + j] += mask[at + j];
    }
}

enum clcnn_status attention_join_masks(struct rewriter *r, const struct attention *a, bool *can, int *value)
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

void attention_divide_mask(const struct rewriter *r, struct attention *a)
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
    *view = attention_matrices(a, -1, size[1], size[2], size[3], false);
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

bool attention_join_digits(const struct rewriter *r, struct attention *a, int *lower, int *higher)
{
    struct value_view view[2], found;
    int64_t wide[2] = {0};
    bool seen[2] = {false};
    if (a->masks != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        const int digit = find_digit(r, a, &a->mask[i], &found, &wide[i]);
        if (digit < 0 || seen[digit] || !view_is_taken(r, NULL, &found))
            return false;
        seen[digit] = true;
        view[digit] = found;
    }
    if (wide[0] != wide[1])
        return false;
    for (int i = 0; i < 2; i++) {
        view_step_back(r, &view[i], NULL, NULL, NULL);
        view_strides(r->g, &view[i], 1, &a->attrs.mask[1 - i]);
    }
    a->attrs.wide = (int32_t)wide[0];
    *lower = view[1].value;
    *higher = view[0].value;
    return true;
}
