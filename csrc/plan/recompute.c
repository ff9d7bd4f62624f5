/* recompute.c: maps of forward that backward computes again instead of keeping them. Values are dear or cheap by what their
 * bytes cost to compute; the cheap ones go first. Where all that is computed again hangs together, as in a net of sums, forward
 * is cut into segments whose ends are kept (Chen et al., "Training deep nets with sublinear memory cost", 2016). */
#include "plan/plan.h"
#include "algos/cost/cost.h"

#include <stdlib.h>

/* All arrays are by value, but for `order`, which is the new order of nodes. */
struct again {
    struct clcnn_graph *g;
    int turn;            /* nodes before it are forward's */
    bool *map;           /* of the batch's items, and comes of an input */
    int *last;           /* the last node that reads it, -1: none */
    int *last_in_fwd;    /* the same of forward */
    double *price;       /* what a byte of it costs to compute */
    bool *keep;          /* of forward's maps */
    int *twin;           /* the value that backward reads in its place, -1: none yet */
    int *order, n_order; /* of nodes */
    int repeated;        /* nodes */
    struct clcnn_err *err;
};

/* ---- what is read where ---- */

/* What a node reads: its inputs, and what its epilogue adds. */
static int *read_of(struct node *n, int i)
{
    return i < n->n_in ? &n->in[i] : &n->epi.add;
}

static bool is_map(const struct clcnn_graph *g, int value, int batch)
{
    const struct clcnn_shape *s = &g->values[value].shape;
    return s->rank >= 2 && s->dim[0] == batch;
}

static void find_maps(struct again *a)
{
    struct clcnn_graph *g = a->g;
    const struct clcnn_shape *x = &g->values[g->inputs[0]].shape;
    const int batch = x->rank > 0 ? x->dim[0] : -1;
    for (int i = 0; i < g->n_values; i++)
        a->map[i] = g->values[i].kind == VALUE_INPUT;
    for (int i = 0; i < g->n_nodes; i++) {
        struct node *n = &g->nodes[i];
        bool from_input = false;
        for (int k = 0; !n->dead && k <= n->n_in; k++)
            from_input |= *read_of(n, k) >= 0 && a->map[*read_of(n, k)];
        for (int k = 0; k < n->n_out; k++)
            a->map[n->out[k]] = from_input;
    }
    for (int i = 0; i < g->n_values; i++)
        a->map[i] = a->map[i] && g->values[i].kind == VALUE_NODE && is_map(g, i, batch);
}

/* The last node before `end` that reads each value. */
static void find_last(const struct again *a, int *last, int end)
{
    for (int i = 0; i < a->g->n_values; i++)
        last[i] = -1;
    for (int i = 0; i < end; i++) {
        struct node *n = &a->g->nodes[i];
        for (int k = 0; !n->dead && k <= n->n_in; k++)
            if (*read_of(n, k) >= 0)
                last[*read_of(n, k)] = i;
    }
}

/* The node before which most bytes of maps wait for their last use: there forward ends. */
static enum clcnn_status find_turn(struct again *a)
{
    const struct clcnn_graph *g = a->g;
    int64_t *change = clcnn_calloc((size_t)g->n_nodes + 2, sizeof *change), live = 0, most = 0;
    if (!change)
        return clcnn_fail_mem(a->err, (size_t)g->n_nodes * sizeof *change);
    for (int i = 0; i < g->n_values; i++)
        if (a->map[i] && a->last[i] > g->values[i].producer) {
            change[g->values[i].producer + 1] += (int64_t)shape_bytes(&g->values[i].shape);
            change[a->last[i] + 1] -= (int64_t)shape_bytes(&g->values[i].shape);
        }
    for (int i = 0; i < g->n_nodes; i++) {
        live += change[i];
        if (live > most) {
            most = live;
            a->turn = i;
        }
    }
    free(change);
    return CLCNN_OK;
}

/* ---- what is kept ---- */

static bool of_forward(const struct again *a, int value)
{
    return a->map[value] && a->g->values[value].producer < a->turn;
}

static double bytes_of(const struct again *a, int value)
{
    return (double)shape_bytes(&a->g->values[value].shape);
}

/* What a node is expected to take, as effort_of() has it of its steps. */
static enum clcnn_status find_cost(double *cost, const struct again *a, struct node *n)
{
    struct infer in;
    double bytes = 0.0;
    *cost = 0.0;
    if (n->op->alias)
        return CLCNN_OK;
    const enum clcnn_status st = graph_infer(a->g, n, &in, a->err);
    if (st != CLCNN_OK)
        return st;
    const double macs = n->op->macs ? n->op->macs(&in) : 0.0;
    free((void *)in.in);
    for (int i = 0; i <= n->n_in; i++)
        bytes += *read_of(n, i) < 0 ? 0.0 : bytes_of(a, *read_of(n, i));
    for (int i = 0; i < n->n_out; i++)
        bytes += bytes_of(a, n->out[i]);
    *cost = macs > bytes * PLAN_BYTE_MACS ? macs : bytes * PLAN_BYTE_MACS;
    return CLCNN_OK;
}

static enum clcnn_status find_prices(struct again *a)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < a->turn; i++) {
        struct node *n = &a->g->nodes[i];
        double cost = 0.0;
        if (!n->dead)
            TRY(find_cost(&cost, a, n));
        for (int k = 0; k < n->n_out; k++)
            a->price[n->out[k]] = cost / bytes_of(a, n->out[k]);
    }
done:
    return st;
}

/* Whether backward reads a map of forward. */
static bool waits(const struct again *a, int value)
{
    return of_forward(a, value) && a->last[value] >= a->turn;
}

struct priced {
    double price, bytes;
};

static int cheaper_first(const void *x, const void *y)
{
    const double a = ((const struct priced *)x)->price, b = ((const struct priced *)y)->price;
    return (a > b) - (a < b);
}

/* Keeps what costs more a byte than that share of all bytes that wait which is cheapest; *dropped: bytes of the others. */
static enum clcnn_status keep_dear(struct again *a, double share, double *dropped)
{
    const struct clcnn_graph *g = a->g;
    struct priced *all = clcnn_calloc((size_t)g->n_values + 1, sizeof *all);
    double total = 0.0, sum = 0.0, limit = -1.0;
    int n = 0;
    if (!all)
        return clcnn_fail_mem(a->err, (size_t)g->n_values * sizeof *all);
    for (int i = 0; i < g->n_values; i++)
        if (waits(a, i)) {
            all[n++] = (struct priced){a->price[i], bytes_of(a, i)};
            total += bytes_of(a, i);
        }
    qsort(all, (size_t)n, sizeof *all, cheaper_first);
    for (int i = 0; i < n && sum < share * total; i++) {
        limit = all[i].price;
        sum += all[i].bytes;
    }
    free(all);
    *dropped = 0.0;
    for (int i = 0; i < g->n_values; i++) {
        a->keep[i] = !of_forward(a, i) || a->price[i] > limit;
        *dropped += a->keep[i] || !waits(a, i) ? 0.0 : bytes_of(a, i);
    }
    for (int i = 0; i < g->n_outputs; i++)
        a->keep[g->outputs[i].value] = true;
    return CLCNN_OK;
}

/* How many maps of forward are needed after each node, by later ones of forward. */
static int *crossing(const struct again *a)
{
    const struct clcnn_graph *g = a->g;
    int *count = clcnn_calloc((size_t)a->turn + 2, sizeof *count);
    for (int i = 0; count && i < g->n_values; i++)
        if (of_forward(a, i) && a->last_in_fwd[i] > g->values[i].producer) {
            count[g->values[i].producer]++;
            count[a->last_in_fwd[i]]--;
        }
    for (int i = 1; count && i < a->turn; i++)
        count[i] += count[i - 1];
    return count;
}

/* Keeps what alone goes on from a segment to the next one, as soon as a segment drops so many bytes, and all maps after the last of
 * these: they would be computed again at once. */
static enum clcnn_status keep_ends(struct again *a, double segment)
{
    const struct clcnn_graph *g = a->g;
    int *count = crossing(a), end = -1;
    double bytes = 0.0;
    if (!count)
        return clcnn_fail_mem(a->err, (size_t)a->turn * sizeof *count);
    for (int i = 0; i < a->turn; i++) {
        const struct node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k < n->n_out; k++)
            bytes += a->keep[n->out[k]] || !waits(a, n->out[k]) ? 0.0 : bytes_of(a, n->out[k]);
        if (n->dead || count[i] != 1 || !of_forward(a, n->out[0]) || a->last_in_fwd[n->out[0]] <= i)
            continue;
        if (bytes >= segment)
            a->keep[n->out[0]] = true;
        if (a->keep[n->out[0]]) {
            bytes = 0.0;
            end = i;
        }
    }
    for (int i = 0; i < g->n_values; i++)
        a->keep[i] |= g->values[i].producer > end;
    free(count);
    return CLCNN_OK;
}

/* ---- nodes that are repeated ---- */

/* What backward reads in the place of a value: itself where it is kept. Nodes that are repeated stand before the first one that reads
 * what they compute. */
static enum clcnn_status find_twin(int *twin, struct again *a, int value)
{
    enum clcnn_status st = CLCNN_OK;
    *twin = value;
    if (value < 0 || a->keep[value])
        return CLCNN_OK;
    if (a->twin[value] < 0) {
        const int from = a->g->values[value].producer;
        for (int i = 0; i <= a->g->nodes[from].n_in; i++) {
            int ignored;
            TRY(find_twin(&ignored, a, *read_of(&a->g->nodes[from], i)));
        }
        TRY(graph_repeat(a->g, from, a->err));
        struct node *again = &a->g->nodes[a->g->n_nodes - 1];
        for (int i = 0; i <= again->n_in; i++)
            TRY(find_twin(read_of(again, i), a, *read_of(again, i)));
        for (int i = 0; i < again->n_out; i++)
            a->twin[a->g->nodes[from].out[i]] = again->out[i];
        a->order[a->n_order++] = a->g->n_nodes - 1;
        a->repeated++;
    }
    *twin = a->twin[value];
done:
    return st;
}

static enum clcnn_status repeat(struct again *a)
{
    enum clcnn_status st = CLCNN_OK;
    const int n_nodes = a->g->n_nodes;
    for (int i = 0; i < n_nodes; i++) {
        for (int k = 0; i >= a->turn && !a->g->nodes[i].dead && k <= a->g->nodes[i].n_in; k++) {
            int twin;
            TRY(find_twin(&twin, a, *read_of(&a->g->nodes[i], k)));
            *read_of(&a->g->nodes[i], k) = twin;
        }
        a->order[a->n_order++] = i;
    }
    TRY(graph_permute(a->g, a->order, a->n_order, a->err));
done:
    return st;
}

static enum clcnn_status allocate(struct again *a)
{
    const size_t values = (size_t)a->g->n_values + 1;
    a->map = clcnn_calloc(values, sizeof *a->map);
    a->last = clcnn_calloc(values, sizeof *a->last);
    a->last_in_fwd = clcnn_calloc(values, sizeof *a->last_in_fwd);
    a->price = clcnn_calloc(values, sizeof *a->price);
    a->keep = clcnn_calloc(values, sizeof *a->keep);
    a->twin = clcnn_calloc(values, sizeof *a->twin);
    a->order = clcnn_calloc(2 * (size_t)a->g->n_nodes + 1, sizeof *a->order);
    if (!a->map || !a->last || !a->last_in_fwd || !a->price || !a->keep || !a->twin || !a->order)
        return clcnn_fail_mem(a->err, values * sizeof *a->price);
    for (int i = 0; i < a->g->n_values; i++)
        a->twin[i] = -1;
    return CLCNN_OK;
}

enum clcnn_status graph_recompute(struct clcnn_graph *g, double share, int segments, int *repeated,
                                  struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct again a = {.g = g, .err = err};
    double dropped = 0.0;
    *repeated = 0;
    if (!g->n_inputs)
        return CLCNN_OK;
    TRY(allocate(&a));
    find_maps(&a);
    find_last(&a, a.last, g->n_nodes);
    TRY(find_turn(&a));
    find_last(&a, a.last_in_fwd, a.turn);
    TRY(find_prices(&a));
    TRY(keep_dear(&a, share, &dropped));
    if (segments)
        TRY(keep_ends(&a, dropped / segments));
    TRY(repeat(&a));
    *repeated = a.repeated;
done:
    free(a.map);
    free(a.last);
    free(a.last_in_fwd);
    free(a.price);
    free(a.keep);
    free(a.twin);
    free(a.order);
    return st;
}
