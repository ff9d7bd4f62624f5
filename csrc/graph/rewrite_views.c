/* rewrite_views.c: views through reshapes, transposes, slices and splits; see rewrite_views.h. */
#include "graph/match.h"
#include "graph/rewrite_views.h"

#include <stdlib.h>

struct value_view view_of(int value, const int64_t size[VIEW_AXES], const int64_t stride[VIEW_AXES])
{
    struct value_view view = {.value = value};
    for (int i = 0; i < VIEW_AXES; i++) {
        view.axis[i].n = size[i] > 1;
        view.axis[i].part[0] = (struct view_part){size[i], stride[i]};
    }
    return view;
}

static void dense_strides(const struct clcnn_shape *s, int64_t stride[CLCNN_MAX_RANK])
{
    for (int64_t i = s->rank - 1, step = 1; i >= 0; step *= s->dim[i--])
        stride[i] = step;
}

/* ---- a view in other coordinates ----------------------------------------------------------------------- */

/* Elements of a dense shape `from` that lie elsewhere: `offset`, and a stride for each of its dimensions. */
struct placing {
    struct clcnn_shape from;
    int64_t offset, stride[CLCNN_MAX_RANK];
};

/* The dimension in which a step of `stride` elements moves; -1: in several at once. */
static int dimension_of(const struct clcnn_shape *s, const int64_t dense[CLCNN_MAX_RANK], int64_t stride)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] > 1 && stride >= dense[i])
            return stride % dense[i] == 0 && stride < dense[i] * s->dim[i] ? i : -1;
    return -1;
}

/* Appends a part after cutting it where it goes over to the next dimension; counts the last place it reaches in each. */
static bool place_part(const struct placing *p, const int64_t dense[CLCNN_MAX_RANK], struct view_part part,
                       int64_t reach[CLCNN_MAX_RANK], struct view_axis *out)
{
    struct view_part digits[VIEW_PARTS];
    int n = 0;
    while (part.size > 1) {
        const int d = dimension_of(&p->from, dense, part.stride);
        if (d < 0 || n == VIEW_PARTS)
            return false;
        const int64_t step = part.stride / dense[d], size = p->from.dim[d];
        int64_t inner = part.size;
        if ((part.size - 1) * step >= size) {
            inner = size / step;
            if (size % step != 0 || part.size % inner != 0)
                return false;
        }
        reach[d] += (inner - 1) * step;
        digits[n++] = (struct view_part){inner, step * p->stride[d]};
        part = (struct view_part){part.size / inner, part.stride * inner};
    }
    while (n > 0) {
        if (out->n == VIEW_PARTS)
            return false;
        out->part[out->n++] = digits[--n];
    }
    return true;
}

/* Neighbouring digits that count on become one. */
static void join_parts(struct view_axis *a)
{
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const struct view_part *part = &a->part[i];
        struct view_part *last = &a->part[n - 1];
        if (n > 0 && last->stride == part->size * part->stride)
            *last = (struct view_part){last->size * part->size, part->stride};
        else
            a->part[n++] = *part;
    }
    a->n = n;
}

static bool place(struct value_view *view, const struct placing *p, int value)
{
    struct value_view out = {.value = value, .offset = p->offset};
    int64_t dense[CLCNN_MAX_RANK], reach[CLCNN_MAX_RANK] = {0};
    dense_strides(&p->from, dense);
    for (int i = 0; i < VIEW_AXES; i++) {
        for (int k = 0; k < view->axis[i].n; k++)
            if (!place_part(p, dense, view->axis[i].part[k], reach, &out.axis[i]))
                return false;
        join_parts(&out.axis[i]);
    }
    for (int64_t i = 0, rest = view->offset; i < p->from.rank; rest %= dense[i++]) {
        out.offset += rest / dense[i] * p->stride[i];
        if (rest / dense[i] + reach[i] >= p->from.dim[i])
            return false;
    }
    *view = out;
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static bool slice_places(const struct node *n, struct placing *p)
{
    const struct slice_attrs *a = n->attrs;
    for (int i = 0; i < p->from.rank; i++) {
        if (a->steps.v[i] < 1)
            return false;
        p->offset += a->starts.v[i] * p->stride[i];
        p->stride[i] *= a->steps.v[i];
    }
    return true;
}

static void split_places(const struct node *n, int value, struct placing *p)
{
    const struct split_attrs *a = n->attrs;
    for (int i = 0; n->out[i] != value; i++)
        p->offset += a->sizes.v[i] * p->stride[a->dim];
}

bool view_gathers_one(const struct clcnn_graph *g, const struct node *n, int64_t *at)
{
    const int dim = ((const struct dim_attrs *)n->attrs)->dim;
    const struct value *x = &g->values[n->in[0]], *index = &g->values[n->in[1]];
    if (index->kind != VALUE_CONSTANT || index->shape.rank > 1 || shape_count(&index->shape) != 1)
        return false;
    *at = index->shape.dtype == CLCNN_INT64 ? *(const int64_t *)index->data : *(const int32_t *)index->data;
    *at += *at < 0 ? x->shape.dim[dim] : 0;
    return *at >= 0 && *at < x->shape.dim[dim];
}

/* The dimension is gone, or has one element. */
static bool gather_places(const struct clcnn_graph *g, const struct node *n, struct placing *p)
{
    const int dim = ((const struct dim_attrs *)n->attrs)->dim;
    int64_t at;
    if (!view_gathers_one(g, n, &at))
        return false;
    p->offset += at * p->stride[dim];
    if (g->values[n->in[1]].shape.rank == 0)
        for (int i = dim; i < p->from.rank; i++)
            p->stride[i] = p->stride[i + 1];
    return true;
}

bool view_before(const struct rewriter *r, struct value_view *view)
{
    const struct value *v = &r->g->values[view->value];
    const struct node *n = v->kind == VALUE_NODE ? &r->g->nodes[v->producer] : NULL;
    if (!n || n->dead)
        return false;
    struct placing p = {.from = v->shape};
    int64_t dense[CLCNN_MAX_RANK + 1] = {0};
    dense_strides(&r->g->values[n->in[0]].shape, dense);
    for (int i = 0; i < CLCNN_MAX_RANK; i++)
        p.stride[i] = dense[i];
    if (rewrite_is_reshape(n)) {
        view->value = n->in[0];
        return true;
    }
    if (rewrite_is(n, &op_transpose))
        for (int i = 0; i < p.from.rank; i++)
            p.stride[i] = dense[((const struct axes_attrs *)n->attrs)->axes.v[i]];
    else if (rewrite_is(n, &op_split))
        split_places(n, view->value, &p);
    else if (!(rewrite_is(n, &op_slice) && slice_places(n, &p)) &&
             !(rewrite_is(n, &op_gather) && gather_places(r->g, n, &p)))
        return false;
    return place(view, &p, n->in[0]);
}

bool view_after(const struct rewriter *r, const struct node *n, struct value_view *view)
{
    if (rewrite_is_reshape(n)) {
        view->value = n->out[0];
        return true;
    }
    if (!rewrite_is(n, &op_transpose))
        return false;
    const struct ints *perm = &((const struct axes_attrs *)n->attrs)->axes;
    struct placing p = {.from = r->g->values[n->in[0]].shape};
    int64_t dense[CLCNN_MAX_RANK];
    dense_strides(&r->g->values[n->out[0]].shape, dense);
    for (int i = 0; i < p.from.rank; i++)
        p.stride[perm->v[i]] = dense[i];
    return place(view, &p, n->out[0]);
}

bool view_broadcast(const struct clcnn_graph *g, struct value_view *view, const struct clcnn_shape *shape,
                    int value)
{
    const struct clcnn_shape *x = &g->values[value].shape;
    const int missing = shape->rank - x->rank;
    struct placing p = {.from = *shape};
    int64_t dense[CLCNN_MAX_RANK];
    dense_strides(x, dense);
    for (int i = 0; i < x->rank; i++)
        p.stride[missing + i] = x->dim[i] > 1 ? dense[i] : 0;
    return place(view, &p, value);
}

/* Elements of an item of the view's value. */
static int64_t item_of(const struct clcnn_graph *g, const struct value_view *view)
{
    const struct clcnn_shape *s = &g->values[view->value].shape;
    return s->rank < 2 ? shape_count(s) : shape_count_from(s, 1);
}

int64_t view_run(const struct clcnn_graph *g, const struct value_view *view)
{
    const struct view_axis *a = &view->axis[0];
    const struct view_part *part = &a->part[0];
    const int64_t item = item_of(g, view);
    if (a->n == 2)
        return a->part[1].size;
    const bool goes_on = a->n == 1 && part->stride < item && part->size * part->stride > item;
    return goes_on && item % part->stride == 0 ? item / part->stride : 1;
}

/* The first axis as runs, and what is inside one of them. */
static bool divide_runs(const struct view_axis *a, int64_t run, struct view_part out[2])
{
    const struct view_part *last = &a->part[a->n - 1];
    if (a->n > 2 || (a->n == 2 && last->size != run) || last->size % run != 0)
        return false;
    out[0] = a->n == 2 ? a->part[0] : (struct view_part){last->size / run, last->stride * run};
    out[1] = (struct view_part){run, last->stride};
    return true;
}

/* A stride as so many items, or else elements; returns how far the part goes inside an item. */
static int64_t put_stride(struct operand_view *strides, int i, const struct view_part *part, int64_t item)
{
    if (part->stride % item == 0) {
        strides->items[i] = part->stride / item;
        return 0;
    }
    strides->elements[i] = part->stride;
    return (part->size - 1) * part->stride;
}

bool view_strides(const struct clcnn_graph *g, const struct value_view *view, int64_t run,
                  struct operand_view *strides)
{
    const int64_t item = item_of(g, view);
    *strides = (struct operand_view){.offset = view->offset};
    int64_t reach = view->offset; /* all inside the first item, but for axes that go from one to the next */
    if (view->axis[0].n > 0) {
        struct view_part part[2];
        if (!divide_runs(&view->axis[0], run, part))
            return false;
        reach += put_stride(strides, VIEW_AXES, &part[0], item) + put_stride(strides, 0, &part[1], item);
    }
    for (int i = 1; i < VIEW_AXES; i++) {
        const struct view_axis *a = &view->axis[i];
        if (a->n > 1)
            return false;
        if (a->n == 1)
            reach += put_stride(strides, i, &a->part[0], item);
    }
    return reach < item;
}

/* ---- operands of a node ---------------------------------------------------------------------------------- */

bool view_is_taken(const struct rewriter *r, int32_t *run, const struct value_view *view)
{
    const int64_t found = !run ? 1 : *run == 1 ? view_run(r->g, view) : *run;
    struct operand_view unused;
    if (!view_strides(r->g, view, found, &unused))
        return false;
    if (run)
        *run = (int32_t)found;
    return true;
}

bool view_step_back(const struct rewriter *r, struct value_view *operand, int32_t *run, double *scale,
                    bool (*fits)(const struct value_view *view))
{
    struct value_view view = *operand;
    double factor = 1.0, number;
    bool moved = false, left_out = false;
    for (;;) {
        const struct value *v = &r->g->values[view.value];
        const struct node *n = v->kind == VALUE_NODE ? &r->g->nodes[v->producer] : NULL;
        const int x =
            n && scale && n->epi.act == ACT_none && n->epi.add < 0 ? match_scaled(r, n, &number) : -1;
        if (x >= 0 && !rewrite_is_overridden(r, n)) {
            view.value = n->in[x];
            factor *= number;
        } else if (!n || rewrite_is_overridden(r, n) || !view_before(r, &view)) {
            return left_out;
        }
        moved = moved || !rewrite_is_reshape(n);
        if ((fits && !fits(&view)) || !view_is_taken(r, run, &view))
            continue;
        *operand = view;
        if (scale)
            *scale *= factor;
        factor = 1.0;
        left_out = moved;
    }
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

enum clcnn_status view_drop_unread(struct rewriter *r, const struct node *last)
{
    const enum clcnn_status st = rewrite_count_anew(r);
    if (st != CLCNN_OK)
        return st;
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
