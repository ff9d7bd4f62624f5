/* whole_numbers.c: which values are whole numbers of few bits, as rounding to steps makes them in quantised files, and which weights
 * that multiply them are: bfloat16 holds both exactly. */
#include "graph/bytes/whole_numbers.h"

#include <math.h>
#include <stdlib.h>

#define MOST_IN_BFLOAT16 256.0f
#define STEPS 255.0f /* of fake_quantize, from the lowest to the highest */
enum { FEW = 64 };   /* elements of a constant that is looked at for itself */

static const struct whole_range none = {.whole = false};

static bool is_whole(float x)
{
    return floorf(x) == x;
}

static struct whole_range of_constant(const struct value *v, int64_t most)
{
    const int64_t count = shape_count(&v->shape);
    const float *x = v->data;
    struct whole_range r = {true, INFINITY, -INFINITY};
    if (v->kind != VALUE_CONSTANT || v->shape.dtype != CLCNN_FLOAT32 || count > most)
        return none;
    for (int64_t i = 0; i < count; i++) {
        if (!is_whole(x[i]) || !isfinite(x[i]))
            return none;
        r.low = fminf(r.low, x[i]);
        r.high = fmaxf(r.high, x[i]);
    }
    return r;
}

static struct whole_range limited(struct whole_range x, float low, float high)
{
    if (!x.whole || !is_whole(low) || !is_whole(high) || low > high)
        return none;
    return (struct whole_range){true, fminf(fmaxf(x.low, low), high), fmaxf(fminf(x.high, high), low)};
}

static struct whole_range of_act(enum act act, float p0, float p1, struct whole_range x)
{
    if (act == ACT_fake_quantize)
        return p0 == 1.0f && is_whole(p1) ? (struct whole_range){true, -p1, STEPS - p1} : none;
    if (act == ACT_none)
        return x;
    return act_as_clip(act, &p0, &p1) == ACT_clip ? limited(x, p0, p1) : none;
}

static bool rounds(const struct op_def *op)
{
    return op == &op_round || op == &op_floor || op == &op_ceil;
}

static struct whole_range of_unary(const struct op_def *op, const struct eltwise_attrs *a,
                                   struct whole_range x)
{
    enum act act = ACT_none;
    float p0 = 0.0f, p1 = 0.0f;
    if (rounds(op))
        return x.whole ? x : (struct whole_range){true, -INFINITY, INFINITY};
    if (op == &op_neg && x.whole)
        return (struct whole_range){true, -x.high, -x.low};
    return act_of_op(op, a, &act, &p0, &p1) ? of_act(act, p0, p1, x) : none;
}

static struct whole_range of_binary(const struct op_def *op, struct whole_range x, struct whole_range y)
{
    if (!x.whole || !y.whole)
        return none;
    if (op == &op_add)
        return (struct whole_range){true, x.low + y.low, x.high + y.high};
    if (op == &op_sub)
        return (struct whole_range){true, x.low - y.high, x.high - y.low};
    return none;
}

static bool only_moves(const struct op_def *op)
{
    static const struct op_def *const moves[] = {
        &op_reshape, &op_flatten, &op_squeeze,  &op_unsqueeze, &op_transpose,
        &op_slice,   &op_split,   &op_identity, &op_reorder,   &op_expand,
    };
    for (int i = 0; i < COUNT_OF(moves); i++)
        if (op == moves[i])
            return true;
    return false;
}

static struct whole_range of_input(const struct clcnn_graph *g, const struct whole_range *known, int value)
{
    if (value < 0)
        return none;
    const struct value *v = &g->values[value];
    return v->kind == VALUE_CONSTANT ? of_constant(v, FEW) : known[value];
}

static struct whole_range of_parts(const struct clcnn_graph *g, const struct whole_range *known,
                                   const struct node *n)
{
    const struct elementwise_attrs *a = n->attrs;
    struct whole_range r = of_input(g, known, n->in[0]);
    for (int k = 0; k < a->n; k++) {
        const struct elementwise_part *part = &a->part[k];
        if (eltwise_is_unary(part->op)) {
            r = of_unary(part->op, &part->attrs, r);
        } else {
            const struct whole_range other = of_input(g, known, n->in[1 + k]);
            r = part->turned ? of_binary(part->op, other, r) : of_binary(part->op, r, other);
        }
    }
    return r;
}

static struct whole_range before_epilogue(const struct clcnn_graph *g, const struct whole_range *known,
                                          const struct node *n)
{
    if (n->n_in == 0)
        return none;
    const struct whole_range x = of_input(g, known, n->in[0]);
    if (n->op == &op_elementwise)
        return of_parts(g, known, n);
    if (eltwise_is_unary(n->op))
        return of_unary(n->op, n->attrs, x);
    if (eltwise_is_binary(n->op))
        return of_binary(n->op, x, of_input(g, known, n->in[1]));
    return only_moves(n->op) ? x : none;
}

static struct whole_range of_node(const struct clcnn_graph *g, const struct whole_range *known,
                                  const struct node *n)
{
    struct whole_range y = before_epilogue(g, known, n);
    if (n->epi.add >= 0)
        y = of_binary(&op_add, y, of_input(g, known, n->epi.add));
    return n->epi.add >= 0 && n->epi.times ? none : of_act(n->epi.act, n->epi.p0, n->epi.p1, y);
}

enum clcnn_status graph_whole_numbers(const struct clcnn_graph *g, struct whole_range **out,
                                      struct clcnn_err *err)
{
    struct whole_range *known = clcnn_calloc((size_t)g->n_values + 1, sizeof *known);
    if (!known)
        return clcnn_fail_mem(err, (size_t)g->n_values * sizeof *known);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct node *n = &g->nodes[i];
        const struct whole_range r = n->dead ? none : of_node(g, known, n);
        for (int o = 0; !n->dead && o < n->n_out; o++)
            known[n->out[o]] = r;
    }
    *out = known;
    return CLCNN_OK;
}

bool whole_numbers_stay(const struct whole_range *known, const struct node *n)
{
    if (n->op != &op_fake_quantize && !rounds(n->op))
        return false;
    const struct whole_range x = known[n->in[0]], y = known[n->out[0]];
    return x.whole && y.whole && x.low >= y.low && x.high <= y.high;
}

static bool is_few_bits(struct whole_range r)
{
    return r.whole && r.low >= -MOST_IN_BFLOAT16 && r.high <= MOST_IN_BFLOAT16;
}

static void note_weights(struct clcnn_graph *g, const struct node *n)
{
    struct value *w = &g->values[n->in[1]];
    if ((n->op == &op_linear || n->op == &op_conv) && n->in[0] >= 0 && g->values[n->in[0]].few_bits)
        w->few_bits = is_few_bits(of_constant(w, INT64_MAX));
}

enum clcnn_status graph_note_few_bits(struct clcnn_graph *g, struct clcnn_err *err)
{
    struct whole_range *known = NULL;
    const enum clcnn_status st = graph_whole_numbers(g, &known, err);
    if (st != CLCNN_OK)
        return st;
    for (int i = 0; i < g->n_values; i++)
        g->values[i].few_bits = is_few_bits(known[i]);
    for (int i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && g->nodes[i].n_in > 1 && g->nodes[i].in[1] >= 0)
            note_weights(g, &g->nodes[i]);
    free(known);
    return CLCNN_OK;
}

bool graph_has_few_bits(const struct clcnn_graph *g, const struct node *layer)
{
    if (layer->n_in < 2 || layer->in[0] < 0 || layer->in[1] < 0)
        return false;
    int x = layer->in[0];
    while (g->values[x].producer >= 0 && g->nodes[g->values[x].producer].op == &op_reorder)
        x = g->nodes[g->values[x].producer].in[0];
    return g->values[x].few_bits && g->values[layer->in[1]].few_bits;
}
