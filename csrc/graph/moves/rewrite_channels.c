/* rewrite_channels.c: orders of channels (channel shuffle) become orders of weights.
 *
 * Concat, split, slices and shuffles of channels only move them: each channel of such a value is one of a layer's output, its
 * origin. Where a shuffle is among them and every layer that reads the value takes channels in any order (a convolution of one
 * group, whose weights follow, or a depthwise one or a pooling before such), it reads what it needs from the origins, in their
 * order, which takes few long runs: a concat of slices. Channels that only pass on are never written. So ShuffleNet's units
 * copy half of their channels once, where they were joined, shuffled and split. */
#include "graph/moves/channel_origins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 12 /* inputs of the concat */

struct tracker {
    struct rewriter *r;
    struct origins o;
    int n_values, n_nodes;     /* of the graph as it was */
    int *first_use, *user;     /* users of each value: user[first_use[v]] to user[first_use[v + 1] - 1] */
    int *first_new, *next_new; /* of each node the new ones that follow it, the last one first; -1: none */
    bool *is_output;
};

static const struct clcnn_shape *shape_of(const struct tracker *t, int value)
{
    return &t->r->g->values[value].shape;
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

/* Lists who uses each value: counts, ends of the lists, and then the lists from their ends on. */
static void find_users(struct tracker *t)
{
    const struct clcnn_graph *g = t->r->g;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = t->n_nodes - 1; i >= 0; i--) {
            const struct node *n = &g->nodes[i];
            for (int k = 0; !n->dead && k <= n->n_in; k++) {
                const int value = k < n->n_in ? n->in[k] : n->epi.add;
                if (value >= 0 && pass == 0)
                    t->first_use[value]++;
                else if (value >= 0)
                    t->user[--t->first_use[value]] = i;
            }
        }
        for (int v = 0; pass == 0 && v < t->n_values; v++)
            t->first_use[v + 1] += t->first_use[v];
    }
    for (int i = 0; i < g->n_outputs; i++)
        t->is_output[g->outputs[i].value] = true;
}

static struct node *user_of(const struct tracker *t, int use)
{
    return &t->r->g->nodes[t->user[use]];
}

/* Whether the node's outputs are known by their origins, so that it need not read the value. */
static bool is_move(const struct tracker *t, const struct node *n)
{
    return n->n_out > 0 && n->out[0] < t->n_values && t->o.of[n->out[0]] != NULL;
}

/* The reshape and the transpose within a shuffle have origins only at its end. */
static bool leads_to_move(const struct tracker *t, const struct node *n)
{
    const int y = n->out[0];
    if ((!rewrite_is(n, &op_reshape) && !rewrite_is(n, &op_transpose)) || t->is_output[y] ||
        t->first_use[y + 1] != t->first_use[y] + 1)
        return false;
    const struct node *next = user_of(t, t->first_use[y]);
    return is_move(t, next) || leads_to_move(t, next);
}

/* Whether the user of a value need not read it, as it knows where its channels come from. */
static bool passes_by(const struct tracker *t, const struct node *user, int value)
{
    return t->o.of[value] && user->epi.add != value && (is_move(t, user) || leads_to_move(t, user));
}

/* Whether all that reads the value takes its channels in any order. *users: how many do. */
static bool any_order(const struct tracker *t, int value, int *users)
{
    if (t->is_output[value])
        return false;
    for (int i = t->first_use[value]; i < t->first_use[value + 1]; i++) {
        const struct node *n = user_of(t, i);
        int below = 0;
        if (passes_by(t, n, value))
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
            memcpy(to + (i * size + j) * inner, from + (i * size + order[j]) * inner,
                   (size_t)inner * sizeof *to);
    *value = made;
done:
    return st;
}

/* All that reads `value` shall read `instead`, whose channel j is order[j] of the value. */
static enum clcnn_status read_in_order(struct tracker *t, int value, int instead, const int *order)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = t->first_use[value]; i < t->first_use[value + 1]; i++) {
        struct node *n = user_of(t, i);
        if (passes_by(t, n, value))
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
static enum clcnn_status part_of(struct tracker *t, const char *name, struct origin from, int count,
                                 int *part)
{
    const struct clcnn_shape shape = *shape_of(t, from.value);
    struct slice_attrs a = {.starts = {.n = shape.rank},
                            .ends = {.n = shape.rank},
                            .axes = {.n = shape.rank},
                            .steps = {.n = shape.rank}};
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
static enum clcnn_status gather(struct tracker *t, const struct indexed *sorted, int n, const char *layer,
                                int *made)
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
        sorted[c] = (struct indexed){t->o.of[value][c], c};
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
    for (int i = before; i < t->r->g->n_nodes; i++) {
        t->next_new[i - t->n_nodes] = t->first_new[producer];
        t->first_new[producer] = i;
    }
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
    rewrite_count_uses(t->r);
    for (int i = t->n_nodes - 1; i >= 0; i--) {
        struct node *n = &g->nodes[i];
        bool used = n->dead || !(is_move(t, n) || rewrite_is(n, &op_reshape) || rewrite_is(n, &op_transpose));
        for (int k = 0; k < n->n_out; k++)
            used = used || t->r->uses[n->out[k]] > 0;
        if (used)
            continue;
        n->dead = true;
        for (int k = 0; k < n->n_in; k++)
            t->r->uses[n->in[k]]--;
    }
}

/* New nodes to their places. */
static enum clcnn_status put_in_order(struct tracker *t)
{
    struct clcnn_graph *g = t->r->g;
    enum clcnn_status st = CLCNN_OK;
    int *order = clcnn_calloc((size_t)g->n_nodes, sizeof *order), at = g->n_nodes;
    if (!order)
        return clcnn_fail_mem(t->r->err, (size_t)g->n_nodes * sizeof *order);
    for (int i = t->n_nodes - 1; i >= 0; i--) {
        for (int k = t->first_new[i]; k >= 0; k = t->next_new[k - t->n_nodes])
            order[--at] = k;
        order[--at] = i;
    }
    st = graph_permute(g, order, g->n_nodes, t->r->err);
    free(order);
    return st;
}

/* Values that a layer reads, behind a shuffle; in `wanted`. False where one of them is read in its own order: the moves stay then. */
static bool find_wanted(const struct tracker *t, int *wanted, int *n)
{
    for (int v = 0; v < t->n_values; v++) {
        int users = 0;
        if (!t->o.of[v] || !t->o.shuffled[v])
            continue;
        if (!any_order(t, v, &users))
            return false;
        if (users > 0)
            wanted[(*n)++] = v;
    }
    return true;
}

/* Whether the user has chosen how to compute the move, or one of the two before it, which a shuffle may consist of. */
static bool is_forced(const struct rewriter *r, const struct node *n)
{
    for (int i = 0; i < 3; i++) {
        if (rewrite_is_overridden(r, n))
            return true;
        if (n->n_in == 0 || n->in[0] < 0 || r->g->values[n->in[0]].kind != VALUE_NODE)
            return false;
        n = &r->g->nodes[r->g->values[n->in[0]].producer];
        if (!rewrite_is(n, &op_transpose) && !rewrite_is(n, &op_reshape))
            return false;
    }
    return false;
}

/* Room for what is known of values and nodes; false: out of memory. */
static bool prepare(struct tracker *t)
{
    const struct clcnn_graph *g = t->r->g;
    const size_t values = (size_t)t->n_values + 1, nodes = (size_t)t->n_nodes + 1;
    size_t uses = 1;
    for (int i = 0; i < t->n_nodes; i++)
        uses += (size_t)g->nodes[i].n_in + 1;
    t->is_output = clcnn_calloc(values, sizeof *t->is_output);
    t->first_use = clcnn_calloc(values, sizeof *t->first_use);
    t->user = clcnn_calloc(uses, sizeof *t->user);
    t->first_new = clcnn_calloc(nodes, sizeof *t->first_new);
    t->next_new = clcnn_calloc(values * (MAX_RUNS + 1), sizeof *t->next_new);
    if (!origins_open(&t->o, g) || !t->is_output || !t->first_use || !t->user || !t->first_new ||
        !t->next_new)
        return false;
    for (int i = 0; i < t->n_nodes; i++)
        t->first_new[i] = -1;
    find_users(t);
    for (int i = 0; i < t->n_nodes; i++)
        if (!g->nodes[i].dead && !is_forced(t->r, &g->nodes[i]) && !origins_follow(&t->o, &g->nodes[i]))
            return false;
    return true;
}

static void clear(struct tracker *t)
{
    origins_close(&t->o);
    free(t->is_output);
    free(t->first_use);
    free(t->user);
    free(t->first_new);
    free(t->next_new);
}

enum clcnn_status rewrite_channel_orders(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct tracker t = {.r = r, .n_values = r->g->n_values, .n_nodes = r->g->n_nodes};
    int *wanted = NULL, n = 0;
    if (!r->options->block || !graph_has_shuffles(r->g))
        return CLCNN_OK;
    wanted = clcnn_calloc((size_t)t.n_values + 1, sizeof *wanted);
    if (!wanted || !prepare(&t)) {
        st = clcnn_fail_mem(r->err, (size_t)t.n_values * sizeof *wanted);
        goto done;
    }
    if (!find_wanted(&t, wanted, &n) || n == 0)
        goto done;
    for (int i = 0; i < n; i++)
        TRY(take_order(&t, wanted[i]));
    free(r->uses); /* there are more values now */
    r->uses = clcnn_calloc((size_t)r->g->n_values + 1, sizeof *r->uses);
    if (!r->uses) {
        st = clcnn_fail_mem(r->err, (size_t)r->g->n_values * sizeof *r->uses);
        goto done;
    }
    drop_unused(&t);
    TRY(put_in_order(&t));
done:
    clear(&t);
    free(wanted);
    return st;
}
