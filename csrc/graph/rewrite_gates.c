/* rewrite_gates.c: a map beside its own gated copy is read once (the response normalisation of ConvNeXtV2, residual gates).
 *
 *   x + x g                =>   x (1 + g)
 *   x + (b + w (x g))      =>   x (1 + w g) + b      w, b constants
 */
#include "graph/match.h"

#include <stdlib.h>

static const struct clcnn_shape *shape_of(const struct rewriter *r, int value)
{
    return &r->g->values[value].shape;
}

/* Whether what `small` is broadcast to has the shape of `large`. */
static bool fits(const struct rewriter *r, int small, int large)
{
    const struct clcnn_shape *s = shape_of(r, small), *l = shape_of(r, large);
    for (int d = 0; d < s->rank; d++) {
        const int at = l->rank - s->rank + d;
        if (at < 0 || (s->dim[d] != 1 && s->dim[d] != l->dim[at]))
            return false;
    }
    return true;
}

/* The node of `op` that computes `value` for no one else; NULL where there is none, or someone has chosen how. */
static struct node *inner(const struct rewriter *r, int value, const struct op_def *op)
{
    struct node *n = rewrite_sole_producer(r, value);
    return n && rewrite_is(n, op) && !rewrite_is_overridden(r, n) ? n : NULL;
}

/* Such a node with a constant operand, if there is one; *value becomes its other operand then. */
static struct node *inner_of_constant(const struct rewriter *r, int *value, const struct op_def *op,
                                      int *constant)
{
    struct node *n = inner(r, *value, op);
    for (int k = 0; n && k < 2; k++)
        if (rewrite_is_constant(r, n->in[k])) {
            *constant = n->in[k];
            *value = n->in[1 - k];
            return n;
        }
    return NULL;
}

/* last = x + (shift + factor (x g)); what is not there is NULL. */
struct gated {
    int x, g, factor, shift;
    struct node *last, *shifting, *scaling, *gating;
};

static bool match_gated(const struct rewriter *r, struct node *last, int k, struct gated *m)
{
    int value = last->in[1 - k];
    *m = (struct gated){.last = last, .x = last->in[k]};
    m->shifting = inner_of_constant(r, &value, &op_add, &m->shift);
    m->scaling = inner_of_constant(r, &value, &op_mul, &m->factor);
    m->gating = inner(r, value, &op_mul);
    if (!m->gating || (m->gating->in[0] != m->x && m->gating->in[1] != m->x))
        return false;
    m->g = m->gating->in[m->gating->in[0] == m->x];
    const struct clcnn_shape *x = shape_of(r, m->x), *g = shape_of(r, m->g);
    return x->dtype == CLCNN_FLOAT32 && g->rank == x->rank && 2 * shape_count(g) <= shape_count(x) &&
           fits(r, m->g, m->x) && (!m->scaling || fits(r, m->factor, m->g)) &&
           (!m->shifting || fits(r, m->shift, m->x));
}

/* Makes n op(a, b), of the shape of a. */
static void compute(struct rewriter *r, struct node *n, const struct op_def *op, int a, int b)
{
    n->op = op;
    n->in[0] = a;
    n->in[1] = b;
    r->g->values[n->out[0]].shape = *shape_of(r, a);
}

static enum clcnn_status join_gate(struct rewriter *r, const struct gated *m)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_shape scalar = {0};
    struct node *more = m->scaling ? m->scaling : m->gating, *product = m->shifting ? m->shifting : m->last;
    int one = -1, gate = m->g;
    TRY(rewrite_note(r, "multiply once by one more than the gate in %s %s", m->last->op->name,
                     m->last->name));
    TRY(rewrite_constant(r, &scalar, &one));
    r->g->values[one].owned[0] = 1.0f;
    r->uses[one]++;
    r->uses[m->x]--;
    if (m->scaling) {
        compute(r, m->gating, &op_mul, m->g, m->factor);
        gate = m->gating->out[0];
    }
    compute(r, more, &op_add, gate, one);
    compute(r, product, &op_mul, m->x, more->out[0]);
    if (m->shifting)
        compute(r, m->last, &op_add, product->out[0], m->shift);
done:
    return st;
}

enum clcnn_status rewrite_join_gates(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    struct gated m;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (!n->dead && rewrite_is(n, &op_add) && !rewrite_is_overridden(r, n) &&
            (match_gated(r, n, 0, &m) || match_gated(r, n, 1, &m)))
            TRY(join_gate(r, &m));
    }
done:
    return st;
}
