/* rewrite_squeeze.c: the gate of a squeeze-and-excite block, which is the mean of each channel of a map and two small layers, 1x1
 * convolutions or linear ones, becomes one layer. Each of the three is little more than its launch on a GPU. CPU devices, which
 * chain their steps, keep the parts. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

struct gate {
    struct node *mean, *move, *fc1, *fc2; /* move: a reshape between the first two, or NULL */
    int x;
};

static bool is_layer(const struct rewriter *r, const struct node *n)
{
    if (!n || n->dead || n->epi.add >= 0 || rewrite_is_forced(r, n, &op_squeeze_excite))
        return false;
    const bool linear = rewrite_is(n, &op_linear) && r->g->values[n->in[0]].shape.rank == 2;
    return (linear || rewrite_is_pointwise(r, n)) && rewrite_weights_are_constant(r, n);
}

/* The mean of each channel, with one pixel left or none. */
static bool is_mean(const struct rewriter *r, const struct node *n)
{
    if (!n || rewrite_is_forced(r, n, &op_squeeze_excite))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape, *y = &r->g->values[n->out[0]].shape;
    if (rewrite_is(n, &op_adaptive_avg_pool))
        return shape_count_from(y, 2) == 1;
    const struct reduce_attrs *a = n->attrs;
    return rewrite_is(n, &op_reduce_mean) && x->dtype == CLCNN_FLOAT32 && x->rank >= 3 && x->rank <= 5 &&
           a->axes.n == x->rank - 2 && a->axes.v[0] == 2;
}

/* Whether `value` has one number for each channel of x. */
static bool is_of_channels(const struct rewriter *r, int value, int x)
{
    const struct clcnn_shape *s = &r->g->values[value].shape, *map = &r->g->values[x].shape;
    return s->rank >= 2 && s->dim[0] == map->dim[0] && s->dim[1] == map->dim[1] &&
           shape_count_from(s, 2) == 1;
}

static bool find_gate(const struct rewriter *r, struct node *fc2, struct gate *g)
{
    *g = (struct gate){.fc2 = fc2};
    if (!is_layer(r, fc2))
        return false;
    g->fc1 = rewrite_sole_producer(r, fc2->in[0]);
    if (!is_layer(r, g->fc1) || g->fc1->op != fc2->op)
        return false;
    g->mean = rewrite_sole_producer(r, g->fc1->in[0]);
    if (g->mean && rewrite_is_reshape(g->mean)) {
        g->move = g->mean;
        g->mean = rewrite_sole_producer(r, g->move->in[0]);
    }
    if (!is_mean(r, g->mean))
        return false;
    g->x = g->mean->in[0];
    const struct value *v = r->g->values;
    const bool map = rewrite_is(fc2, &op_linear) || v[g->x].shape.rank == v[fc2->in[1]].shape.rank;
    return map && is_of_channels(r, g->fc1->in[0], g->x);
}

/* Where groups know who is the last, or a part is forced to an algorithm of the whole. */
static bool is_wanted(const struct rewriter *r, const struct gate *g)
{
    return (r->options->gpu && r->options->arrivals) || rewrite_is_overridden(r, g->mean) ||
           rewrite_is_overridden(r, g->fc1) || rewrite_is_overridden(r, g->fc2);
}

static enum clcnn_status merge_gate(struct rewriter *r, const struct gate *g)
{
    enum { INPUTS = 5 };
    char name[3 * (CLCNN_NAME_MAX + 1)];
    struct node *last = g->fc2;
    snprintf(name, sizeof name, "%s+%s+%s", g->mean->name, g->fc1->name, last->name);
    struct squeeze_excite_attrs *a = clcnn_calloc(1, sizeof *a);
    int *in = clcnn_calloc(INPUTS, sizeof *in);
    char *copy = clcnn_strdup(name);
    if (!a || !in || !copy) {
        free(a);
        free(in);
        free(copy);
        return clcnn_fail_mem(r->err, sizeof name);
    }
    *a = (struct squeeze_excite_attrs){(int32_t)g->fc1->epi.act, g->fc1->epi.p0, g->fc1->epi.p1};
    in[0] = g->x;
    for (int i = 1; i < 3; i++) {
        in[i] = i < g->fc1->n_in ? g->fc1->in[i] : -1;
        in[i + 2] = i < last->n_in ? last->in[i] : -1;
    }
    free(last->in);
    free(last->attrs);
    free(last->name);
    last->in = in;
    last->n_in = INPUTS;
    last->attrs = a;
    last->name = copy;
    last->op = &op_squeeze_excite;
    last->zeros = g->mean->zeros;
    g->mean->dead = g->fc1->dead = true;
    if (g->move)
        g->move->dead = true;
    return CLCNN_OK;
}

enum clcnn_status rewrite_squeeze_excite(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct gate g;
        if (!find_gate(r, &r->g->nodes[i], &g) || !is_wanted(r, &g))
            continue;
        TRY(rewrite_note(r, "merge means %s and layers %s and %s into a gate", g.mean->name, g.fc1->name,
                         g.fc2->name));
        TRY(merge_gate(r, &g));
    }
done:
    return st;
}
