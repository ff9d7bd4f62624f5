/* views.c: where every value lives. A value is a view of a storage: a reshape is the view that its input is when the bytes are the
 * same, concat on the first two dimensions lets producers write into views of the parent (a flat one those of values of any shape),
 * split reads views of its input, and so do slices and choices of one index whose elements lie side by side.
 * What cannot be a view of another value gets a storage of its own, and a copy step. */
#include "graph/rewrite_views.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

struct parent {     /* of a value that is written into a concat's output */
    int value;      /* -1: none */
    int64_t offset; /* along the joined dimension */
};

struct use {
    int last;          /* node that reads it last; the number of nodes: the caller does */
    bool beyond_moves; /* read by others than moves of channels */
};

struct view_finder {
    struct blueprint *bp;
    struct clcnn_graph *g;
    struct value_views *views;
    struct parent *parent;
    struct use *use; /* of each value */
    const struct clcnn_plan_options *options;
    struct clcnn_err *err;
};

static int64_t items(const struct clcnn_shape *s)
{
    return s->rank < 2 ? 1 : s->dim[0];
}

/* ---- ranges of channels ----------------------------------------------------------------------------------------- */

/* Whether the node moves channels on channel blocks by the algorithm `channels`, which reads any range of a map. */
static bool moves_channels(const struct view_finder *p, const struct node *n)
{
    if (n->op == &op_slice) {
        const struct clcnn_shape *x = &p->g->values[n->in[0]].shape, *y = &p->g->values[n->out[0]].shape;
        return n->src_block && x->dim[1] != y->dim[1];
    }
    if (n->op->role == ROLE_SPLIT)
        return n->src_block && !n->whole_items && ((const struct split_attrs *)n->attrs)->dim == 1;
    return n->op->role == ROLE_CONCAT && n->src_block && !n->whole_items;
}

static void find_uses(struct view_finder *p)
{
    const struct clcnn_graph *g = p->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k <= n->n_in; k++) {
            const int value = k < n->n_in ? n->in[k] : n->epi.add;
            if (value >= 0) {
                p->use[value].last = i;
                p->use[value].beyond_moves |= k == n->n_in || !moves_channels(p, n);
            }
        }
    }
    for (int i = 0; i < g->n_outputs; i++)
        p->use[g->outputs[i].value] = (struct use){g->n_nodes, true};
}

/* Whether the value is some neighbouring channels of a map, and only such nodes read it: then it is not copied. */
static bool is_range(const struct view_finder *p, int value)
{
    const struct value *v = &p->g->values[value];
    const struct node *n = v->kind == VALUE_NODE ? &p->g->nodes[v->producer] : NULL;
    if (!n || p->use[value].beyond_moves || !moves_channels(p, n) || n->op->role == ROLE_CONCAT)
        return false;
    return n->op != &op_slice || ((const struct slice_attrs *)n->attrs)->steps.v[1] == 1;
}

/* The node's outputs that are ranges of its input; *skip: all of them. */
static void try_ranges(struct view_finder *p, const struct node *n, bool *skip)
{
    const struct operand *in = &p->views->operand[n->in[0]];
    int at = n->op == &op_slice ? ((const struct slice_attrs *)n->attrs)->starts.v[1] : 0;
    *skip = true;
    for (int i = 0; i < n->n_out; i++) {
        struct operand *o = &p->views->operand[n->out[i]];
        if (is_range(p, n->out[i])) {
            o->view = in->view;
            o->batch_stride = in->batch_stride;
            o->constant = in->constant;
            o->first = in->first + at;
            o->of = in->of ? in->of : in->shape.dim[1];
            o->in_place = true;
        } else {
            *skip = false;
        }
        at += o->shape.dim[1];
    }
}

/* ---- concat ----------------------------------------------------------------------------------------------------- */

/* Tiles of GPUs' linear layers take rows of all items as one matrix, which they are not with gaps between the items. */
static bool wants_one_matrix(const struct view_finder *p, int value)
{
    const struct clcnn_shape *y = &p->g->values[value].shape;
    return !cpu_device(&p->bp->dev->info) && p->g->nodes[p->g->values[value].producer].op == &op_linear &&
           y->rank > 2 && y->dim[0] > 1;
}

/* Only a value that a step computes into memory of its own can be moved into a parent. */
static bool movable(const struct view_finder *p, int value)
{
    const struct value *v = &p->g->values[value];
    return v->kind == VALUE_NODE && p->parent[value].value < 0 && !p->g->nodes[v->producer].op->alias &&
           p->g->nodes[v->producer].op->role != ROLE_SPLIT && !is_range(p, value) &&
           !wants_one_matrix(p, value);
}

/* On channel blocks a part has its place in the parent where it begins with a block. Where it ends inside of one, the lanes that
 * follow will be the next part's: then no one may read the part after the concat, as all numbers there would count. */
static bool fits_parent(const struct view_finder *p, int index, int input, int64_t at)
{
    const struct node *n = &p->g->nodes[index];
    const struct value *part = &p->g->values[n->in[input]];
    const int block = p->g->values[n->out[0]].block;
    if (!block || ((const struct dim_attrs *)n->attrs)->dim != 1)
        return true;
    return at % block == 0 &&
           (part->shape.dim[1] % block == 0 || input == n->n_in - 1 || p->use[n->in[input]].last == index);
}

static bool whole_blocks(const struct value *v)
{
    return !v->block || v->shape.dim[1] % v->block == 0;
}

/* All inputs already sit one after the other in the same parent (the growing concats of a dense block): then this concat is
 * itself a view of that parent. */
static bool consecutive(const struct view_finder *p, const struct node *n, int dim)
{
    const struct parent *first = &p->parent[n->in[0]];
    int64_t at = first->offset;
    if (first->value < 0 || p->parent[n->out[0]].value >= 0)
        return false;
    const struct node *owner = &p->g->nodes[p->g->values[first->value].producer];
    if (((const struct dim_attrs *)owner->attrs)->dim != dim)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (p->parent[n->in[i]].value != first->value || p->parent[n->in[i]].offset != at)
            return false;
        at += p->g->values[n->in[i]].shape.dim[dim];
    }
    return whole_blocks(&p->g->values[n->out[0]]);
}

/* What a value is another shape of, if that lies densely in row-major order: its memory can be a piece of a flat array. */
static int flat_origin(const struct view_finder *p, int value)
{
    const struct value *v = &p->g->values[value];
    while (v->kind == VALUE_NODE && !v->block && p->g->nodes[v->producer].op->alias) {
        value = p->g->nodes[v->producer].in[0];
        v = &p->g->values[value];
    }
    return v->block || v->items ? -1 : value;
}

/* Last concat first: it is the largest one of a dense block, and the outer one of nested ones. */
static void choose_parents(struct view_finder *p)
{
    for (int i = p->g->n_nodes - 1; i >= 0; i--) {
        const struct node *n = &p->g->nodes[i];
        if (n->dead || n->op->role != ROLE_CONCAT)
            continue;
        const int dim = ((const struct dim_attrs *)n->attrs)->dim;
        const bool flat = p->g->values[n->out[0]].shape.rank < 2;
        if (dim > 1)
            continue;
        if (consecutive(p, n, dim)) {
            p->parent[n->out[0]] = p->parent[n->in[0]];
            continue;
        }
        int64_t at = 0;
        for (int k = 0; k < n->n_in; k++) {
            const int part = flat ? flat_origin(p, n->in[k]) : n->in[k];
            if (part >= 0 && movable(p, part) && fits_parent(p, i, k, at))
                p->parent[part] = (struct parent){.value = n->out[0], .offset = at};
            at += p->g->values[n->in[k]].shape.dim[dim];
        }
    }
}

static bool new_view(struct view_finder *p, struct operand *o, struct view of)
{
    o->view = blueprint_view_as(p->bp, of);
    return o->view >= 0;
}

static bool view_own_storage(struct view_finder *p, int value, const char *name)
{
    struct operand *o = &p->views->operand[value];
    const int storage = blueprint_storage(p->bp, name, items(&o->shape), operand_item(o), true, false);
    if (storage < 0 || !new_view(p, o, (struct view){storage, -1, -1, 0}))
        return false;
    p->bp->storages[storage].elem = clcnn_dtype_bytes(o->shape.dtype);
    o->batch_stride = p->bp->storages[storage].stride;
    return true;
}

/* A view of another value along `dim`, `at` entries from its start, whose dimensions between the first one and `dim` have one
 * entry. */
static bool view_range(struct view_finder *p, int value, int whole, int dim, int64_t at)
{
    struct operand *o = &p->views->operand[value];
    const struct operand *w = &p->views->operand[whole];
    struct view s = p->bp->views[w->view];
    const bool by_item = dim == 0 && w->shape.rank > 1; /* else elements are dense */
    s.offset += by_item ? at * w->batch_stride : at * shape_count_from(&w->shape, dim + 1);
    o->batch_stride = w->batch_stride;
    o->constant = w->constant;
    return new_view(p, o, s);
}

static bool view_output(struct view_finder *p, int value);

static bool view_in_parent(struct view_finder *p, int value)
{
    const int whole = p->parent[value].value;
    if (p->views->operand[whole].view == VIEW_NONE && !view_output(p, whole))
        return false;
    const struct node *owner = &p->g->nodes[p->g->values[whole].producer];
    if (!view_range(p, value, whole, ((const struct dim_attrs *)owner->attrs)->dim, p->parent[value].offset))
        return false;
    struct operand *o = &p->views->operand[value];
    if (p->g->values[whole].shape.rank < 2)
        o->batch_stride = operand_item(o);
    return true;
}

static bool view_output(struct view_finder *p, int value)
{
    if (p->views->operand[value].view != VIEW_NONE)
        return true; /* found when a member of its concat was */
    if (p->parent[value].value >= 0)
        return view_in_parent(p, value);
    return view_own_storage(p, value, p->g->nodes[p->g->values[value].producer].name);
}

/* An alias: same elements in the same order. A different shape needs dense items, since its own items differ. */
static bool try_alias(struct view_finder *p, const struct node *n, bool *skip)
{
    const struct operand *in = &p->views->operand[n->in[0]];
    struct operand *out = &p->views->operand[n->out[0]];
    const bool same_items = items(&in->shape) == items(&out->shape);
    if (!n->op->alias || p->parent[n->out[0]].value >= 0)
        return true;
    if (!same_items && items(&in->shape) > 1 && in->batch_stride != operand_item(in))
        return true;
    const struct view s = p->bp->views[in->view];
    out->constant = in->constant;
    out->batch_stride = same_items ? in->batch_stride : operand_item(out);
    *skip = true;
    return new_view(p, out, s);
}

static bool try_split(struct view_finder *p, const struct node *n, bool *skip)
{
    if (n->op->role != ROLE_SPLIT)
        return true;
    const struct split_attrs *a = n->attrs;
    const struct operand *in = &p->views->operand[n->in[0]];
    if (a->dim > 1 || in->shape.rank < 2)
        return true;
    for (int i = 0; a->dim == 1 && i < n->n_out; i++)
        if (in->of || !whole_blocks(&p->g->values[n->out[i]]))
            return true;
    int64_t at = 0;
    for (int i = 0; i < n->n_out; i++) {
        if (!view_range(p, n->out[i], n->in[0], a->dim, at))
            return false;
        at += p->g->values[n->out[i]].shape.dim[a->dim];
    }
    *skip = true;
    return true;
}

/* ---- slices ----------------------------------------------------------------------------------------------------- */

struct stretch { /* of a value: indices from `at` on along `dim` */
    int dim;
    int64_t at;
};

static bool is_slice_of_one_dim(const struct clcnn_graph *g, const struct node *n, struct stretch *s)
{
    const struct slice_attrs *a = n->attrs;
    const struct clcnn_shape *x = &g->values[n->in[0]].shape, *y = &g->values[n->out[0]].shape;
    int cut = 0;
    for (int d = 0; d < x->rank; d++) {
        if (x->dim[d] == y->dim[d] && a->steps.v[d] == 1)
            continue;
        *s = (struct stretch){d, a->starts.v[d]};
        if (cut++ || a->steps.v[d] != 1)
            return false;
    }
    return cut == 1;
}

static bool is_gather_of_one(const struct clcnn_graph *g, const struct node *n, struct stretch *s)
{
    s->dim = ((const struct dim_attrs *)n->attrs)->dim;
    return view_gathers_one(g, n, &s->at);
}

/* Whether the stretch of each item is one piece of memory, and the items of the result are those of x or follow each other. */
static bool is_one_piece(const struct clcnn_shape *x, const struct clcnn_shape *y, int dim)
{
    for (int d = 1; d < dim; d++)
        if (x->dim[d] != 1)
            return false;
    return x->rank == 1 || (y->rank >= 2 || items(x) == 1 || dim == 0);
}

static bool try_slice(struct view_finder *p, const struct node *n, bool *skip)
{
    const struct value *v = p->g->values;
    struct stretch s;
    if (!(n->op == &op_slice && is_slice_of_one_dim(p->g, n, &s)) &&
        !(n->op == &op_gather && is_gather_of_one(p->g, n, &s)))
        return true;
    const struct clcnn_shape *x = &v[n->in[0]].shape, *y = &v[n->out[0]].shape;
    const struct operand *in = &p->views->operand[n->in[0]];
    struct operand *out = &p->views->operand[n->out[0]];
    if (in->constant || in->of || v[n->in[0]].block || v[n->out[0]].block || n->items ||
        p->parent[n->out[0]].value >= 0 || override_of_layer(p->options, n->name) >= 0 ||
        !is_one_piece(x, y, s.dim))
        return true;
    *skip = true;
    if (!view_range(p, n->out[0], n->in[0], s.dim, s.at))
        return false;
    if (x->rank < 2 || (s.dim == 0 && y->rank < x->rank)) /* one item, whose elements are dense */
        out->batch_stride = operand_item(out);
    return true;
}

static bool view_node(struct view_finder *p, int index)
{
    const struct node *n = &p->g->nodes[index];
    bool *skip = &p->views->skip[index];
    for (int i = 0; n->in_commit && i < n->n_out; i++)
        p->views->operand[n->out[i]] = p->views->operand[n->in[n->op->renews[i] - 1]];
    if (!try_alias(p, n, skip) || (!*skip && !try_split(p, n, skip)) || (!*skip && !try_slice(p, n, skip)))
        return false;
    if (!*skip && n->op->role != ROLE_CONCAT && moves_channels(p, n))
        try_ranges(p, n, skip);
    if (*skip)
        return true;
    for (int i = 0; i < n->n_out; i++)
        if (!view_output(p, n->out[i]))
            return false;
    if (n->op->role == ROLE_CONCAT) {
        *skip = true;
        for (int i = 0; i < n->n_in; i++)
            *skip = *skip && concat_input_in_place(p->bp, p->views, n, i);
    }
    return true;
}

static bool view_leaves(struct view_finder *p)
{
    for (int i = 0; i < p->g->n_values; i++) {
        const struct value *v = &p->g->values[i];
        struct operand *o = &p->views->operand[i];
        *o = operand_of_value(v);
        operand_take_items(o, v->items);
        o->batch_stride = operand_item(o);
        if (v->kind == VALUE_CONSTANT) {
            const int packed = blueprint_constant(p->bp, i, shape_bytes(&v->shape), v->name ? v->name : "");
            if (packed < 0 || !new_view(p, o, (struct view){-1, packed, -1, 0}))
                return false;
        } else if (v->kind == VALUE_STATE) {
            if (!new_view(p, o, (struct view){-1, -1, clcnn_state_find(p->bp->state, v->name), 0}))
                return false;
        } else if (v->kind == VALUE_INPUT && !view_own_storage(p, i, v->name)) {
            return false;
        }
    }
    return true;
}

enum clcnn_status find_value_views(struct value_views *views, struct blueprint *bp,
                                   const struct clcnn_plan_options *options, struct clcnn_err *err)
{
    struct clcnn_graph *g = bp->graph;
    struct view_finder p = {.bp = bp, .g = g, .views = views, .options = options, .err = err};
    views->operand = clcnn_calloc((size_t)g->n_values + 1, sizeof *views->operand);
    views->skip = clcnn_calloc((size_t)g->n_nodes + 1, sizeof *views->skip);
    p.parent = clcnn_calloc((size_t)g->n_values + 1, sizeof *p.parent);
    p.use = clcnn_calloc((size_t)g->n_values + 1, sizeof *p.use);
    bool ok = views->operand && views->skip && p.parent && p.use;
    for (int i = 0; ok && i < g->n_values; i++)
        p.parent[i].value = -1;
    if (ok) {
        find_uses(&p);
        choose_parents(&p);
        ok = view_leaves(&p);
    }
    for (int i = 0; ok && i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            ok = view_node(&p, i);
    free(p.parent);
    free(p.use);
    return ok ? CLCNN_OK : clcnn_fail_mem(err, (size_t)g->n_values * sizeof *views->operand);
}

int value_storage(const struct blueprint *bp, const struct value_views *views, int value)
{
    const int view = value < 0 ? VIEW_NONE : views->operand[value].view;
    return view < 0 ? -1 : bp->views[view].storage;
}

void value_views_free(struct value_views *views)
{
    free(views->operand);
    free(views->skip);
    memset(views, 0, sizeof *views);
}
