/* rewrite_channels.c: orders of channels (channel shuffle) become orders of weights.
 *
 * Concat, split, slices and shuffles of channels only move them: each channel of such a value is one of a layer's output, its
 * origin. Where a shuffle is among them and every layer that reads the value takes channels in any order (a convolution of one
 * group, whose weights follow, or a depthwise one or a pooling before such), it reads what it needs from the origins, in their
 * order, which takes few long runs: a concat of slices. Channels that only pass on are never written. So ShuffleNet's units
 * copy half of their channels once, where they were joined, shuffled and split. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 12 /* inputs of the concat */

struct origin {
    int value, channel;
};

/* Of each value the origins of its channels, NULL where it is one itself; and whether a shuffle is behind them. */
struct tracker {
    struct rewriter *r;
    struct origin **of;
    bool *shuffled;
    int n_values, n_nodes; /* of the graph as it was */
    int *after;            /* of each new node: the node that it follows */
};

static const struct clcnn_shape *shape_of(const struct tracker *t, int value)
{
    return &t->r->g->values[value].shape;
}

/* ---- moves ---------------------------------------------------------------------------------------------------- */

static struct origin origin_of(const struct tracker *t, int value, int channel)
{
    return t->of[value] ? t->of[value][channel] : (struct origin){value, channel};
}

static bool is_map(const struct tracker *t, int value)
{
    const struct clcnn_shape *s = shape_of(t, value);
    return s->rank >= 3 && s->rank <= 5 && s->dtype == CLCNN_FLOAT32;
}

/* Makes room for the origins of an output; NULL: out of memory. */
static struct origin *track(struct tracker *t, int value)
{
    t->of[value] = clcnn_calloc((size_t)shape_of(t, value)->dim[1], sizeof *t->of[value]);
    return t->of[value];
}

static bool track_concat(struct tracker *t, const struct node *n)
{
    struct origin *to = track(t, n->out[0]);
    for (int i = 0; to && i < n->n_in; i++) {
        for (int c = 0; c < shape_of(t, n->in[i])->dim[1]; c++)
            *to++ = origin_of(t, n->in[i], c);
        t->shuffled[n->out[0]] |= t->shuffled[n->in[i]];
    }
    return to != NULL;
}

/* Channels from..from + step.. of an input. */
static bool track_part(struct tracker *t, int x, int y, int from, int step)
{
    struct origin *to = track(t, y);
    for (int c = 0; to && c < shape_of(t, y)->dim[1]; c++)
        to[c] = origin_of(t, x, from + c * step);
    t->shuffled[y] = t->shuffled[x];
    return to != NULL;
}

static bool track_split(struct tracker *t, const struct node *n)
{
    int at = 0;
    for (int i = 0; i < n->n_out; i++) {
        if (!track_part(t, n->in[0], n->out[i], at, 1))
            return false;
        at += shape_of(t, n->out[i])->dim[1];
    }
    return true;
}

static bool slices_channels(const struct tracker *t, const struct node *n)
{
    const struct slice_attrs *a = n->attrs;
    const struct clcnn_shape *x = shape_of(t, n->in[0]), *y = shape_of(t, n->out[0]);
    for (int d = 0; d < x->rank; d++)
        if (d != 1 && (x->dim[d] != y->dim[d] || a->steps.v[d] != 1))
            return false;
    return true;
}

/* How many of the dimensions from `first` on make up `size`; -1: none do. */
static int dims_of(const struct clcnn_shape *s, int first, int64_t size)
{
    int64_t product = 1;
    int d = first;
    while (d < s->rank && product < size)
        product *= s->dim[d++];
    return product == size ? d : -1;
}

/* The end of reshape, transpose, reshape that changes the order of channels alone; *inner: the transpose. */
static bool is_shuffle(const struct tracker *t, const struct node *n, const struct node **inner, int *first, int *past)
{
    const struct clcnn_graph *g = t->r->g;
    const struct value *v = &g->values[n->in[0]];
    if (!rewrite_is(n, &op_reshape) || v->kind != VALUE_NODE || !rewrite_is(&g->nodes[v->producer], &op_transpose))
        return false;
    *inner = &g->nodes[v->producer];
    const struct value *u = &g->values[(*inner)->in[0]];
    if (u->kind != VALUE_NODE || !rewrite_is(&g->nodes[u->producer], &op_reshape))
        return false;
    const int x = g->nodes[u->producer].in[0];
    const struct clcnn_shape *s = shape_of(t, x);
    if (!is_map(t, x) || !shape_equal(s, shape_of(t, n->out[0])))
        return false;
    *first = dims_of(&u->shape, 0, s->dim[0]);
    *past = *first < 0 ? -1 : dims_of(&u->shape, *first, s->dim[1]);
    const struct ints *perm = &((const struct axes_attrs *)(*inner)->attrs)->axes;
    for (int d = 0; *past >= 0 && d < perm->n; d++)
        if (d < *first || d >= *past ? perm->v[d] != d : perm->v[d] < *first || perm->v[d] >= *past)
            return false;
    return *past >= 0;
}

static bool track_shuffle(struct tracker *t, const struct node *n, const struct node *inner, int first, int past)
{
    const struct clcnn_graph *g = t->r->g;
    const struct clcnn_shape *split = shape_of(t, inner->in[0]);
    const struct ints *perm = &((const struct axes_attrs *)inner->attrs)->axes;
    const int x = g->nodes[g->values[inner->in[0]].producer].in[0];
    struct origin *to = track(t, n->out[0]);
    for (int c = 0; to && c < shape_of(t, x)->dim[1]; c++) {
        int at[CLCNN_MAX_RANK] = {0}, from = 0;
        for (int d = past - 1, rest = c; d >= first; d--) {
            at[perm->v[d]] = rest % split->dim[perm->v[d]];
            rest /= split->dim[perm->v[d]];
        }
        for (int d = first; d < past; d++)
            from = from * split->dim[d] + at[d];
        to[c] = origin_of(t, x, from);
    }
    t->shuffled[n->out[0]] = true;
    return to != NULL;
}

/* Finds the origins of what the node computes, if it is a move of channels; false: out of memory. */
static bool track_node(struct tracker *t, const struct node *n)
{
    const struct node *inner;
    int first, past;
    if (n->epi.add >= 0 || n->epi.act != ACT_none)
        return true;
    if (rewrite_is(n, &op_reshape))
        return !is_shuffle(t, n, &inner, &first, &past) || track_shuffle(t, n, inner, first, past);
    if (n->n_in == 0 || !is_map(t, n->in[0]))
        return true;
    if (rewrite_is(n, &op_concat))
        return ((const struct dim_attrs *)n->attrs)->dim != 1 || track_concat(t, n);
    if (rewrite_is(n, &op_split))
        return ((const struct split_attrs *)n->attrs)->dim != 1 || track_split(t, n);
    if (rewrite_is(n, &op_slice) && slices_channels(t, n)) {
        const struct slice_attrs *a = n->attrs;
        return track_part(t, n->in[0], n->out[0], a->starts.v[1], a->steps.v[1]);
    }
    return true;
}

/* ---- who takes any order -------------------------------------------------------------------------------------- */

/* Where the order comes to an end: a convolution of one group. */
static bool ends_order(const struct rewriter *r, const struct node *n)
{
    return rewrite_is(n, &op_conv) && ((const struct conv_attrs *)n->attrs)->groups == 1 &&
           rewrite_is_constant(r, n->in[1]);
}

/* A convolution of one filter and one channel a group. */
static bool is_depthwise(const struct rewriter *r, const struct node *n)
{
    if (!rewrite_is(n, &op_conv) || !rewrite_is_constant(r, n->in[1]) ||
        (n->in[2] >= 0 && !rewrite_is_constant(r, n->in[2])))
        return false;
    const struct clcnn_shape *w = &r->g->values[n->in[1]].shape;
    return ((const struct conv_attrs *)n->attrs)->groups == w->dim[0] && w->dim[1] == 1;
}

/* Where results have the order of what is read. */
static bool keeps_order(const struct rewriter *r, const struct node *n)
{
    return is_depthwise(r, n) || rewrite_is(n, &op_max_pool) || rewrite_is(n, &op_avg_pool) ||
           rewrite_is(n, &op_adaptive_avg_pool) || rewrite_is(n, &op_adaptive_max_pool);
}

static bool reads(const struct node *n, int value)
{
    for (int i = 0; !n->dead && i < n->n_in; i++)
        if (n->in[i] == value)
            return true;
    return false;
}

/* Whether the node's outputs are known by their origins, so that it need not read the value. */
static bool is_move(const struct tracker *t, const struct node *n)
{
    return n->n_out > 0 && n->out[0] < t->n_values && t->of[n->out[0]] != NULL;
}

/* The reshape and the transpose within a shuffle have origins only at its end. */
static bool leads_to_move(const struct tracker *t, const struct node *n)
{
    const struct clcnn_graph *g = t->r->g;
    if (!rewrite_is(n, &op_reshape) && !rewrite_is(n, &op_transpose))
        return false;
    for (int i = 0, many = 0; i < t->n_nodes; i++)
        if (reads(&g->nodes[i], n->out[0])) {
            many++;
            if (!is_move(t, &g->nodes[i]) && !leads_to_move(t, &g->nodes[i]))
                return false;
            if (many > 1)
                return false;
        }
    return true;
}

/* Whether all that reads the value takes its channels in any order. *users: how many do. */
static bool any_order(const struct tracker *t, int value, int *users)
{
    const struct clcnn_graph *g = t->r->g;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == value)
            return false;
    for (int i = 0; i < t->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        int below = 0;
        if (n->dead || (!reads(n, value) && n->epi.add != value))
            continue;
        if (t->of[value] && (is_move(t, n) || leads_to_move(t, n)))
            continue;
        for (int k = 1; k < n->n_in; k++)
            if (n->in[k] == value)
                return false;
        if (n->epi.add == value || (!ends_order(t->r, n) && (!keeps_order(t->r, n) || n->epi.add >= 0)))
            return false;
        if (!ends_order(t->r, n) && !any_order(t, n->out[0], &below))
            return false;
        ++*users;
    }
    return true;
}

/* ---- weights in another order ----------------------------------------------------------------------------------- */

/* A copy of the constant whose entry j of dimension `dim` is entry order[j] of the old one. */
static enum clcnn_status reorder_constant(struct tracker *t, int *value, int dim, const int *order)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape shape = *shape_of(t, *value);
    int made;
    TRY(graph_owned_constant(t->r->g, &shape, &made, t->r->err));
    const float *from = t->r->g->values[*value].data;
    float *to = t->r->g->values[made].owned;
    const int64_t inner = shape_count_from(&shape, dim + 1), size = shape.dim[dim],
                  outer = shape_count(&shape) / (inner * size);
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < size; j++)
            memcpy(to + (i * size + j) * inner, from + (i * size + order[j]) * inner, (size_t)inner * sizeof *to);
    *value = made;
done:
    return st;
}

/* All that reads `value` shall read `instead`, whose channel j is order[j] of the value. */
static enum clcnn_status read_in_order(struct tracker *t, int value, int instead, const int *order)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < t->n_nodes; i++) {
        struct node *n = &t->r->g->nodes[i];
        if (n->dead || !reads(n, value) || (t->of[value] && (is_move(t, n) || leads_to_move(t, n))))
            continue;
        n->in[0] = instead;
        if (ends_order(t->r, n)) {
            TRY(reorder_constant(t, &n->in[1], 1, order));
            continue;
        }
        if (rewrite_is(n, &op_conv)) {
            TRY(reorder_constant(t, &n->in[1], 0, order));
            if (n->in[2] >= 0)
                TRY(reorder_constant(t, &n->in[2], 0, order));
        }
        TRY(read_in_order(t, n->out[0], n->out[0], order));
    }
done:
    return st;
}

/* ---- the concat of slices --------------------------------------------------------------------------------------- */

struct indexed {
    struct origin origin;
    int at;
};

static int by_origin(const void *a, const void *b)
{
    const struct indexed *x = a, *y = b;
    if (x->origin.value != y->origin.value)
        return x->origin.value < y->origin.value ? -1 : 1;
    return x->origin.channel - y->origin.channel;
}

/* Channels [from, from + count) of an origin: itself, or a slice. */
static enum clcnn_status part_of(struct tracker *t, const char *name, struct origin from, int count, int *part)
{
    const struct clcnn_shape shape = *shape_of(t, from.value);
    struct slice_attrs a = {
        .starts = {.n = shape.rank}, .ends = {.n = shape.rank}, .axes = {.n = shape.rank}, .steps = {.n = shape.rank}};
    *part = from.value;
    if (count == shape.dim[1])
        return CLCNN_OK;
    for (int d = 0; d < shape.rank; d++) {
        a.ends.v[d] = shape.dim[d];
        a.axes.v[d] = d;
        a.steps.v[d] = 1;
    }
    a.starts.v[1] = from.channel;
    a.ends.v[1] = from.channel + count;
    return graph_append(t->r->g, &op_slice, name, &a, &from.value, 1, part, t->r->err);
}

static int count_runs(const struct indexed *sorted, int n)
{
    int runs = 1;
    for (int c = 1; c < n; c++)
        runs += sorted[c].origin.value != sorted[c - 1].origin.value ||
                sorted[c].origin.channel != sorted[c - 1].origin.channel + 1;
    return runs;
}

/* New nodes that compute the sorted channels. */
static enum clcnn_status gather(struct tracker *t, const struct indexed *sorted, int n, const char *layer, int *made)
{
    enum clcnn_status st = CLCNN_OK;
    int parts[MAX_RUNS], count = 0;
    char name[CLCNN_NAME_MAX + 16];
    for (int c = 0, end; c < n; c = end) {
        for (end = c + 1; end < n && count_runs(sorted + c, end + 1 - c) == 1; end++)
            ;
        snprintf(name, sizeof name, "%s:%d", layer, count);
        TRY(part_of(t, name, sorted[c].origin, end - c, &parts[count++]));
    }
    *made = parts[0];
    if (count > 1) {
        const struct dim_attrs a = {.dim = 1};
        snprintf(name, sizeof name, "%s:order", layer);
        TRY(graph_append(t->r->g, &op_concat, name, &a, parts, count, made, t->r->err));
    }
done:
    return st;
}

/* Lets the readers of a shuffled value have its channels in the order of their origins. */
static enum clcnn_status take_order(struct tracker *t, int value)
{
    enum clcnn_status st = CLCNN_OK;
    const int n = shape_of(t, value)->dim[1], producer = t->r->g->values[value].producer;
    struct indexed *sorted = clcnn_calloc((size_t)n, sizeof *sorted);
    int *order = clcnn_calloc((size_t)n, sizeof *order), made;
    if (!sorted || !order) {
        st = clcnn_fail_mem(t->r->err, (size_t)n * sizeof *sorted);
        goto done;
    }
    for (int c = 0; c < n; c++)
        sorted[c] = (struct indexed){t->of[value][c], c};
    qsort(sorted, (size_t)n, sizeof *sorted, by_origin);
    if (count_runs(sorted, n) > MAX_RUNS)
        goto done;
    for (int c = 0; c < n; c++)
        order[c] = sorted[c].at;
    const char *layer = t->r->g->nodes[producer].name;
    TRY(rewrite_note(t->r, "order the weights of what reads %s instead of its channels", layer));
    const int before = t->r->g->n_nodes;
    char name[CLCNN_NAME_MAX];
    snprintf(name, sizeof name, "%s", layer); /* nodes move when some are added */
    TRY(gather(t, sorted, n, name, &made));
    for (int i = before; i < t->r->g->n_nodes; i++)
        t->after[i - t->n_nodes] = producer;
    TRY(read_in_order(t, value, made, order));
done:
    free(sorted);
    free(order);
    return st;
}

/* ---- the pass --------------------------------------------------------------------------------------------------- */

/* Moves that no one reads any more are gone. */
static void drop_unused(struct tracker *t)
{
    struct clcnn_graph *g = t->r->g;
    for (int i = t->n_nodes - 1; i >= 0; i--) {
        struct node *n = &g->nodes[i];
        bool used = n->dead || !(is_move(t, n) || rewrite_is(n, &op_reshape) || rewrite_is(n, &op_transpose));
        for (int k = 0; !used && k < n->n_out; k++) {
            for (int j = i + 1; j < g->n_nodes && !used; j++)
                used = reads(&g->nodes[j], n->out[k]) || (!g->nodes[j].dead && g->nodes[j].epi.add == n->out[k]);
            for (int j = 0; j < g->n_outputs; j++)
                used = used || g->outputs[j].value == n->out[k];
        }
        n->dead = n->dead || !used;
    }
}

/* New nodes to their places. */
static enum clcnn_status put_in_order(struct tracker *t)
{
    struct clcnn_graph *g = t->r->g;
    enum clcnn_status st = CLCNN_OK;
    int *order = clcnn_calloc((size_t)g->n_nodes, sizeof *order), n = 0;
    if (!order)
        return clcnn_fail_mem(t->r->err, (size_t)g->n_nodes * sizeof *order);
    for (int i = 0; i < t->n_nodes; i++) {
        order[n++] = i;
        for (int k = t->n_nodes; k < g->n_nodes; k++)
            if (t->after[k - t->n_nodes] == i)
                order[n++] = k;
    }
    st = graph_permute(g, order, n, t->r->err);
    free(order);
    return st;
}

/* Values that a layer reads, behind a shuffle; in `wanted`. False where one of them is read in its own order: the moves stay then. */
static bool find_wanted(const struct tracker *t, int *wanted, int *n)
{
    for (int v = 0; v < t->n_values; v++) {
        int users = 0;
        if (!t->of[v] || !t->shuffled[v])
            continue;
        if (!any_order(t, v, &users))
            return false;
        if (users > 0)
            wanted[(*n)++] = v;
    }
    return true;
}

enum clcnn_status rewrite_channel_orders(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    const int values = r->g->n_values, nodes = r->g->n_nodes;
    struct tracker t = {.r = r, .n_values = values, .n_nodes = nodes};
    int *wanted = NULL, n = 0;
    if (!r->options->block)
        return CLCNN_OK;
    t.of = clcnn_calloc((size_t)values + 1, sizeof *t.of);
    t.shuffled = clcnn_calloc((size_t)values + 1, sizeof *t.shuffled);
    t.after = clcnn_calloc((size_t)values * (MAX_RUNS + 1) + 1, sizeof *t.after);
    wanted = clcnn_calloc((size_t)values + 1, sizeof *wanted);
    bool ok = t.of && t.shuffled && t.after && wanted;
    for (int i = 0; ok && i < nodes; i++)
        if (!r->g->nodes[i].dead && !rewrite_is_overridden(r, &r->g->nodes[i]))
            ok = track_node(&t, &r->g->nodes[i]);
    if (!ok) {
        st = clcnn_fail_mem(r->err, (size_t)values * sizeof *t.of);
        goto done;
    }
    if (!find_wanted(&t, wanted, &n) || n == 0)
        goto done;
    for (int i = 0; i < n; i++)
        TRY(take_order(&t, wanted[i]));
    drop_unused(&t);
    TRY(put_in_order(&t));
done:
    for (int v = 0; t.of && v < values; v++)
        free(t.of[v]);
    free(t.of);
    free(t.shuffled);
    free(t.after);
    free(wanted);
    return st;
}
