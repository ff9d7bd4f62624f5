/* channel_origins.c: concat, split, slices and shuffles of channels only move them: each channel of such a value is one of a
 * layer's output, its origin. */
#include "graph/moves/channel_origins.h"

#include <stdlib.h>

static const struct clcnn_shape *shape_of(const struct origins *o, int value)
{
    return &o->g->values[value].shape;
}

static struct origin origin_of(const struct origins *o, int value, int channel)
{
    return o->of[value] ? o->of[value][channel] : (struct origin){value, channel};
}

static bool is_map(const struct origins *o, int value)
{
    const struct clcnn_shape *s = shape_of(o, value);
    return s->rank >= 3 && s->rank <= 5 && s->dtype == CLCNN_FLOAT32;
}

/* Makes room for the origins of an output; NULL: out of memory. */
static struct origin *track(struct origins *o, int value)
{
    o->of[value] = clcnn_calloc((size_t)shape_of(o, value)->dim[1], sizeof *o->of[value]);
    return o->of[value];
}

static bool track_concat(struct origins *o, const struct node *n)
{
    struct origin *to = track(o, n->out[0]);
    for (int i = 0; to && i < n->n_in; i++) {
        for (int c = 0; c < shape_of(o, n->in[i])->dim[1]; c++)
            *to++ = origin_of(o, n->in[i], c);
        o->shuffled[n->out[0]] |= o->shuffled[n->in[i]];
    }
    return to != NULL;
}

/* Channels from..from + step.. of an input. */
static bool track_part(struct origins *o, int x, int y, int from, int step)
{
    struct origin *to = track(o, y);
    for (int c = 0; to && c < shape_of(o, y)->dim[1]; c++)
        to[c] = origin_of(o, x, from + c * step);
    o->shuffled[y] = o->shuffled[x];
    return to != NULL;
}

static bool track_split(struct origins *o, const struct node *n)
{
    int at = 0;
    for (int i = 0; i < n->n_out; i++) {
        if (!track_part(o, n->in[0], n->out[i], at, 1))
            return false;
        at += shape_of(o, n->out[i])->dim[1];
    }
    return true;
}

static bool slices_channels(const struct origins *o, const struct node *n)
{
    const struct slice_attrs *a = n->attrs;
    const struct clcnn_shape *x = shape_of(o, n->in[0]), *y = shape_of(o, n->out[0]);
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
static bool is_shuffle(const struct origins *o, const struct node *n, const struct node **inner, int *first,
                       int *past)
{
    const struct clcnn_graph *g = o->g;
    const struct value *v = &g->values[n->in[0]];
    if (!rewrite_is(n, &op_reshape) || v->kind != VALUE_NODE ||
        !rewrite_is(&g->nodes[v->producer], &op_transpose))
        return false;
    *inner = &g->nodes[v->producer];
    const struct value *u = &g->values[(*inner)->in[0]];
    if (u->kind != VALUE_NODE || !rewrite_is(&g->nodes[u->producer], &op_reshape))
        return false;
    const int x = g->nodes[u->producer].in[0];
    const struct clcnn_shape *s = shape_of(o, x);
    if (!is_map(o, x) || !shape_equal(s, shape_of(o, n->out[0])))
        return false;
    *first = dims_of(&u->shape, 0, s->dim[0]);
    *past = *first < 0 ? -1 : dims_of(&u->shape, *first, s->dim[1]);
    const struct ints *perm = &((const struct axes_attrs *)(*inner)->attrs)->axes;
    for (int d = 0; *past >= 0 && d < perm->n; d++)
        if (d < *first || d >= *past ? perm->v[d] != d : perm->v[d] < *first || perm->v[d] >= *past)
            return false;
    return *past >= 0;
}

static bool track_shuffle(struct origins *o, const struct node *n, const struct node *inner, int first,
                          int past)
{
    const struct clcnn_graph *g = o->g;
    const struct clcnn_shape *split = shape_of(o, inner->in[0]);
    const struct ints *perm = &((const struct axes_attrs *)inner->attrs)->axes;
    const int x = g->nodes[g->values[inner->in[0]].producer].in[0];
    struct origin *to = track(o, n->out[0]);
    for (int c = 0; to && c < shape_of(o, x)->dim[1]; c++) {
        int at[CLCNN_MAX_RANK] = {0}, from = 0;
        for (int d = past - 1, rest = c; d >= first; d--) {
            at[perm->v[d]] = rest % split->dim[perm->v[d]];
            rest /= split->dim[perm->v[d]];
        }
        for (int d = first; d < past; d++)
            from = from * split->dim[d] + at[d];
        to[c] = origin_of(o, x, from);
    }
    o->shuffled[n->out[0]] = true;
    return to != NULL;
}

bool origins_follow(struct origins *o, const struct node *n)
{
    const struct node *inner;
    int first, past;
    if (n->epi.add >= 0 || n->epi.act != ACT_none)
        return true;
    if (rewrite_is(n, &op_reshape))
        return !is_shuffle(o, n, &inner, &first, &past) || track_shuffle(o, n, inner, first, past);
    if (n->n_in == 0 || !is_map(o, n->in[0]))
        return true;
    if (rewrite_is(n, &op_concat))
        return ((const struct dim_attrs *)n->attrs)->dim != 1 || track_concat(o, n);
    if (rewrite_is(n, &op_split))
        return ((const struct split_attrs *)n->attrs)->dim != 1 || track_split(o, n);
    if (rewrite_is(n, &op_slice) && slices_channels(o, n)) {
        const struct slice_attrs *a = n->attrs;
        return track_part(o, n->in[0], n->out[0], a->starts.v[1], a->steps.v[1]);
    }
    return true;
}

bool graph_has_shuffles(const struct clcnn_graph *g)
{
    const struct origins o = {.g = g};
    const struct node *inner;
    int first, past;
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && is_shuffle(&o, &g->nodes[i], &inner, &first, &past))
            return true;
    return false;
}

bool origins_open(struct origins *o, const struct clcnn_graph *g)
{
    *o = (struct origins){.g = g, .n_values = g->n_values};
    o->of = clcnn_calloc((size_t)o->n_values + 1, sizeof *o->of);
    o->shuffled = clcnn_calloc((size_t)o->n_values + 1, sizeof *o->shuffled);
    return o->of && o->shuffled;
}

void origins_close(struct origins *o)
{
    for (int v = 0; o->of && v < o->n_values; v++)
        free(o->of[v]);
    free(o->of);
    free(o->shuffled);
}
