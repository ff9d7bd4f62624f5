/* rewrite_common.c: what the passes share: looking at nodes, moving them, new weights, and notes of what was done. */
#include "graph/rewrite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rewrite_is(const struct node *n, const struct op_def *op)
{
    return n->op == op;
}

bool rewrite_is_reshape(const struct node *n)
{
    return rewrite_is(n, &op_reshape) || rewrite_is(n, &op_flatten) || rewrite_is(n, &op_squeeze) ||
           rewrite_is(n, &op_unsqueeze);
}

bool rewrite_is_move(const struct node *n)
{
    return rewrite_is_reshape(n) || rewrite_is(n, &op_transpose);
}

bool rewrite_brings(const struct ints *perm, int from, int to)
{
    int next = 0;
    for (int d = 0; d < perm->n; d++) {
        next += next == from;
        if (perm->v[d] != (d == to ? from : next))
            return false;
        next += d != to;
    }
    return true;
}

bool rewrite_all_equal(const struct ints *list, int32_t wanted)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] != wanted)
            return false;
    return true;
}

bool rewrite_is_constant(const struct rewriter *r, int value)
{
    return value >= 0 && r->g->values[value].kind == VALUE_CONSTANT;
}

bool rewrite_weights_are_constant(const struct rewriter *r, const struct node *n)
{
    for (int k = 1; k < 3; k++)
        if (n->n_in > k && n->in[k] >= 0 && !rewrite_is_constant(r, n->in[k]))
            return false;
    return true;
}

struct node *rewrite_sole_producer(const struct rewriter *r, int value)
{
    if (value < 0 || r->g->values[value].kind != VALUE_NODE || r->uses[value] != 1)
        return NULL;
    struct node *n = &r->g->nodes[r->g->values[value].producer];
    return n->dead || n->n_out != 1 ? NULL : n;
}

struct node *rewrite_next_reader(const struct rewriter *r, int value, const struct node *from)
{
    for (struct node *n = r->g->nodes + (from - r->g->nodes) + 1; n < r->g->nodes + r->g->n_nodes; n++)
        for (int k = 0; !n->dead && k < n->n_in; k++)
            if (n->in[k] == value)
                return n;
    return NULL;
}

struct node *rewrite_sole_reader(const struct rewriter *r, int value, const struct node *from)
{
    return r->uses[value] == 1 ? rewrite_next_reader(r, value, from) : NULL;
}

bool rewrite_is_forced(const struct rewriter *r, const struct node *n, const struct op_def *merged_op)
{
    const struct clcnn_override *all = NULL;
    for (int i = 0; i < r->options->override_count; i++) {
        const struct clcnn_override *o = &r->options->overrides[i];
        if (strcmp(o->layer, n->name) == 0)
            return op_algo_find(merged_op, o->algo) < 0;
        if (strcmp(o->layer, CLCNN_EVERY_LAYER) == 0)
            all = o;
    }
    return all && op_algo_find(n->op, all->algo) >= 0 && op_algo_find(merged_op, all->algo) < 0;
}

bool rewrite_is_overridden(const struct rewriter *r, const struct node *n)
{
    for (int i = 0; i < r->options->override_count; i++)
        if (strcmp(r->options->overrides[i].layer, n->name) == 0)
            return true;
    return false;
}

static enum clcnn_status add_line(struct notes *notes, struct clcnn_err *err, const char *fmt, va_list ap)
{
    char text[3 * CLCNN_NAME_MAX];
    vsnprintf(text, sizeof text, fmt, ap);
    if (!clcnn_grow((void **)&notes->line, &notes->cap, notes->n + 1, sizeof *notes->line))
        return clcnn_fail_mem(err, sizeof *notes->line);
    notes->line[notes->n] = clcnn_strdup(text);
    if (!notes->line[notes->n])
        return clcnn_fail_mem(err, sizeof text);
    notes->n++;
    return CLCNN_OK;
}

enum clcnn_status notes_add(struct notes *notes, struct clcnn_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const enum clcnn_status st = add_line(notes, err, fmt, ap);
    va_end(ap);
    return st;
}

enum clcnn_status rewrite_note(struct rewriter *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const enum clcnn_status st = add_line(r->notes, r->err, fmt, ap);
    va_end(ap);
    return st;
}

enum clcnn_status rewrite_constant(struct rewriter *r, const struct clcnn_shape *shape, int *value)
{
    const size_t before = (size_t)r->g->n_values;
    int *uses = clcnn_calloc(before + 2, sizeof *uses);
    if (!uses)
        return clcnn_fail_mem(r->err, before * sizeof *uses);
    const enum clcnn_status st = graph_owned_constant(r->g, shape, value, r->err);
    if (st != CLCNN_OK) {
        free(uses);
        return st;
    }
    memcpy(uses, r->uses, before * sizeof *uses);
    free(r->uses);
    r->uses = uses;
    return CLCNN_OK;
}

void rewrite_count_uses(struct rewriter *r)
{
    const struct clcnn_graph *g = r->g;
    memset(r->uses, 0, (size_t)g->n_values * sizeof *r->uses);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k < n->n_in; k++)
            if (n->in[k] >= 0)
                r->uses[n->in[k]]++;
        if (!n->dead && n->epi.add >= 0)
            r->uses[n->epi.add]++;
    }
    for (int i = 0; i < g->n_outputs; i++)
        r->uses[g->outputs[i].value]++;
}

enum clcnn_status rewrite_count_anew(struct rewriter *r)
{
    int *uses = clcnn_calloc((size_t)r->g->n_values + 1, sizeof *uses);
    if (!uses)
        return clcnn_fail_mem(r->err, (size_t)r->g->n_values * sizeof *uses);
    free(r->uses);
    r->uses = uses;
    rewrite_count_uses(r);
    return CLCNN_OK;
}

void rewrite_take_result(struct rewriter *r, struct node *from, struct node *to)
{
    const int given = to->out[0];
    to->out[0] = from->out[0];
    from->out[0] = given;
    r->g->values[given].producer = (int)(from - r->g->nodes);
    r->g->values[to->out[0]].producer = (int)(to - r->g->nodes);
    to->dead = true;
}

/* The later position is the safe one: whatever the fused node reads has been computed there. */
void rewrite_move(struct rewriter *r, struct node *from, struct node *to)
{
    const struct node husk = *to;
    *to = *from;
    *from = husk;
    from->dead = true;
    const int computed = to->out[0];
    to->out[0] = from->out[0];
    from->out[0] = computed;
    r->g->values[to->out[0]].producer = (int)(to - r->g->nodes);
    r->g->values[computed].producer = (int)(from - r->g->nodes);
}

enum clcnn_status rewrite_reshaped(struct rewriter *r, int *constant, const struct clcnn_shape *shape)
{
    enum clcnn_status st = CLCNN_OK;
    const int from = *constant;
    if (r->uses[from] == 1 && r->g->values[from].kind == VALUE_CONSTANT) {
        r->g->values[from].shape = *shape;
        return CLCNN_OK;
    }
    TRY(rewrite_constant(r, shape, constant));
    r->uses[from]--;
    r->uses[*constant]++;
    memcpy(r->g->values[*constant].owned, r->g->values[from].data, shape_bytes(shape));
done:
    return st;
}

enum clcnn_status rewrite_set_input(struct rewriter *r, struct node *n, int k, int value)
{
    if (n->n_in <= k) {
        int *in = clcnn_calloc((size_t)(k + 1), sizeof *in);
        if (!in)
            return clcnn_fail_mem(r->err, (size_t)(k + 1) * sizeof *in);
        memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
        free(n->in);
        for (; n->n_in <= k; n->n_in++)
            in[n->n_in] = -1;
        n->in = in;
    }
    if (n->in[k] >= 0)
        r->uses[n->in[k]]--;
    r->uses[value]++;
    n->in[k] = value;
    return CLCNN_OK;
}

enum clcnn_status rewrite_own_input(struct rewriter *r, struct node *n, int k,
                                    const struct clcnn_shape *absent, const float **old, float **to)
{
    enum clcnn_status st = CLCNN_OK;
    const struct value *v = n->n_in > k && n->in[k] >= 0 ? &r->g->values[n->in[k]] : NULL;
    const struct clcnn_shape shape = v ? v->shape : *absent;
    int value = -1;
    *old = v ? v->data : NULL;
    *to = v && r->uses[n->in[k]] == 1 ? (v->owned ? v->owned : v->donated) : NULL;
    if (*to)
        return CLCNN_OK;
    TRY(rewrite_constant(r, &shape, &value));
    TRY(rewrite_set_input(r, n, k, value));
    *to = r->g->values[value].owned;
done:
    return st;
}

static bool shifts_nothing(const struct rewrite_affine *a)
{
    for (int64_t c = 0; c < a->channels; c++)
        if (a->shift[c] != 0.0)
            return false;
    return true;
}

bool rewrite_takes_affine(const struct rewriter *r, const struct node *n, const struct rewrite_affine *a)
{
    if (!rewrite_weights_are_constant(r, n))
        return false;
    const struct clcnn_shape *x = &r->g->values[n->in[0]].shape;
    if (rewrite_is(n, &op_linear))
        return a->last || (x->rank == 2 && x->dim[1] % a->channels == 0);
    if (!rewrite_is(n, &op_conv) || x->dim[1] != a->channels)
        return false;
    return rewrite_all_equal(&((const struct conv_attrs *)n->attrs)->padding, 0) || shifts_nothing(a);
}

/* The weights of a filter are `run` for each of `channels` of the input, the first of which is `first`. */
struct filter_part {
    int64_t first, channels, run;
};

static double shift_of_filter(const struct rewrite_affine *a, const struct filter_part *p, const float *w)
{
    double sum = 0.0;
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t i = c * p->run; i < (c + 1) * p->run; i++)
            sum += w[i] * a->shift[p->first + c];
    return sum;
}

static void scale_filter(const struct rewrite_affine *a, const struct filter_part *p, const float *w,
                         float *to)
{
    for (int64_t c = 0; c < p->channels; c++)
        for (int64_t i = c * p->run; i < (c + 1) * p->run; i++)
            to[i] = (float)(w[i] * a->scale[p->first + c]);
}

enum clcnn_status rewrite_take_affine(struct rewriter *r, struct node *n, const struct rewrite_affine *a)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape shape = r->g->values[n->in[1]].shape,
                             b_shape = {.rank = 1, .dim = {shape.dim[0]}};
    const int64_t filters = shape.dim[0], inner = shape_count_from(&shape, 1),
                  groups = rewrite_is(n, &op_conv) ? ((const struct conv_attrs *)n->attrs)->groups : 1;
    struct filter_part p = {.channels = a->channels / groups, .run = inner * groups / a->channels};
    const float *w = r->g->values[n->in[1]].data, *b;
    float *to;
    TRY(rewrite_own_input(r, n, 2, &b_shape, &b, &to));
    for (int64_t f = 0; f < filters; f++) {
        p.first = f / (filters / groups) * p.channels;
        to[f] = (float)((b ? b[f] : 0.0) + shift_of_filter(a, &p, &w[f * inner]));
    }
    if (a->scale)
        TRY(rewrite_own_input(r, n, 1, &shape, &w, &to));
    for (int64_t f = 0; a->scale && f < filters; f++) {
        p.first = f / (filters / groups) * p.channels;
        scale_filter(a, &p, &w[f * inner], &to[f * inner]);
    }
    n->zeros = (struct clcnn_zeros){0}; /* others come through in x */
done:
    return st;
}

struct places places_of(const struct rewriter *r)
{
    return (struct places){.nodes = r->g->n_nodes};
}

enum clcnn_status places_add(struct rewriter *r, struct places *p, int node)
{
    const int more = r->g->n_nodes - p->nodes;
    if (!clcnn_grow((void **)&p->of, &p->cap, more, sizeof *p->of))
        return clcnn_fail_mem(r->err, (size_t)more * sizeof *p->of);
    while (p->n < more)
        p->of[p->n++] = node;
    return CLCNN_OK;
}

enum clcnn_status places_take(struct rewriter *r, const struct places *p)
{
    if (p->n == 0)
        return CLCNN_OK;
    const int all = p->nodes + p->n;
    int *order = clcnn_calloc((size_t)all, sizeof *order), at = 0, next = 0;
    if (!order)
        return clcnn_fail_mem(r->err, (size_t)all * sizeof *order);
    for (int i = 0; i < p->nodes; i++) {
        order[at++] = i;
        while (next < p->n && p->of[next] == i)
            order[at++] = p->nodes + next++;
    }
    const enum clcnn_status st = graph_permute(r->g, order, all, r->err);
    free(order);
    return st;
}

enum clcnn_status rewrite_append(struct rewriter *r, const struct op_def *op, const char *layer,
                                 const char *what, const void *attrs, int *value)
{
    char name[CLCNN_NAME_MAX + 16];
    const int in = *value;
    snprintf(name, sizeof name, "%s:%s", layer, what);
    return graph_append(r->g, op, name, attrs, &in, 1, value, r->err);
}
