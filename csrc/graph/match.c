/* match.c: recognising operators that were written out; see match.h. */
#include "graph/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LOOKS = 64 };

/* ---- the nodes of a pattern ------------------------------------------------------------------------------- */

void match_add(struct match *m, struct node *n)
{
    if (++m->looks > MAX_LOOKS)
        m->full = true;
    for (int i = 0; i < m->n; i++)
        if (m->node[i] == n)
            return;
    if (m->n == COUNT_OF(m->node))
        m->full = true;
    else
        m->node[m->n++] = n;
}

static int uses_by(const struct node *n, int value)
{
    int uses = 0;
    for (int k = 0; k < n->n_in; k++)
        uses += n->in[k] == value;
    return uses;
}

bool match_closed(const struct rewriter *r, const struct match *m, const struct node *last,
                  const struct op_def *merged_op)
{
    if (m->full || rewrite_is_forced(r, last, merged_op))
        return false;
    for (int i = 0; i < m->n; i++) {
        const struct node *inner = m->node[i];
        int known = uses_by(last, inner->out[0]);
        for (int k = 0; k < m->n; k++)
            known += uses_by(m->node[k], inner->out[0]);
        if (inner == last || known != r->uses[inner->out[0]] || rewrite_is_overridden(r, inner))
            return false;
    }
    return true;
}

static void use(struct rewriter *r, const int *values, int count, int more)
{
    for (int i = 0; i < count; i++)
        if (values[i] >= 0)
            r->uses[values[i]] += more;
}

void match_remove(struct rewriter *r, struct node *n)
{
    if (!n->dead)
        use(r, n->in, n->n_in, -1);
    n->dead = true;
}

void match_drop_unread(struct rewriter *r, bool (*kind)(const struct node *n))
{
    for (int i = r->g->n_nodes - 1; i >= 0; i--) {
        struct node *n = &r->g->nodes[i];
        if (!n->dead && kind(n) && r->uses[n->out[0]] == 0 && !rewrite_is_overridden(r, n))
            match_remove(r, n);
    }
}

/* Brings attributes into canonical form, as when a node is made. */
static enum clcnn_status check_shape(struct rewriter *r, const struct node *n)
{
    struct infer in;
    enum clcnn_status st = graph_infer(r->g, n, &in, r->err);
    if (st != CLCNN_OK)
        return st;
    st = n->op->infer(&in, r->err);
    free((void *)in.in);
    if (st == CLCNN_OK && !shape_equal(&in.out[0], &r->g->values[n->out[0]].shape))
        st = clcnn_fail(r->err, CLCNN_E_INTERNAL, "%s %s: a rewrite changed the shape of its result",
                        n->op->name, n->name);
    return st;
}

enum clcnn_status match_replace(struct rewriter *r, const struct match *m, struct node *last,
                                const struct match_result *result)
{
    const struct op_def *op = result->op;
    const size_t bytes = op->attrs_size ? op->attrs_size : 1;
    void *attrs = clcnn_calloc(1, bytes);
    int *in = clcnn_calloc((size_t)result->n_in, sizeof *in);
    enum clcnn_status st = CLCNN_OK;
    if (!attrs || !in)
        TRY(clcnn_fail_mem(r->err, bytes));
    TRY(attrs_set(op, last->name, attrs, result->attrs, result->n_attrs, r->err));
    TRY(rewrite_note(r, "turn %d nodes up to %s %s into %s", m->n + 1, last->op->name, last->name, op->name));
    memcpy(in, result->in, (size_t)result->n_in * sizeof *in);
    use(r, in, result->n_in, 1);
    for (int i = 0; i < m->n; i++)
        match_remove(r, m->node[i]);
    use(r, last->in, last->n_in, -1);
    free(last->in);
    free(last->attrs);
    last->in = in;
    last->n_in = result->n_in;
    last->attrs = attrs;
    last->op = op;
    return check_shape(r, last);
done:
    free(attrs);
    free(in);
    return st;
}

/* ---- looking ---------------------------------------------------------------------------------------------- */

struct node *match_producer(const struct rewriter *r, int value)
{
    if (value < 0 || r->g->values[value].kind != VALUE_NODE)
        return NULL;
    struct node *n = &r->g->nodes[r->g->values[value].producer];
    return n->dead || n->n_out != 1 ? NULL : n;
}

struct node *match_op(const struct rewriter *r, int value, const struct op_def *op)
{
    struct node *n = match_producer(r, value);
    return n && rewrite_is(n, op) ? n : NULL;
}

bool match_slices_along(const struct rewriter *r, const struct node *slice, int d)
{
    const struct slice_attrs *a = slice->attrs;
    const struct clcnn_shape *x = &r->g->values[slice->in[0]].shape;
    for (int i = 0; i < x->rank; i++)
        if (i != d && (a->starts.v[i] != 0 || a->ends.v[i] != x->dim[i] || a->steps.v[i] != 1))
            return false;
    return true;
}

bool match_scalar(const struct rewriter *r, int value, double *number)
{
    if (!rewrite_is_constant(r, value))
        return false;
    const struct value *v = &r->g->values[value];
    if (v->shape.dtype != CLCNN_FLOAT32 || shape_count(&v->shape) != 1)
        return false;
    *number = *(const float *)v->data;
    return true;
}

int match_scalar_operand(const struct rewriter *r, const struct node *n, double *number)
{
    for (int k = 1; n->n_in == 2 && k >= 0; k--)
        if (match_scalar(r, n->in[k], number))
            return k;
    return -1;
}

int match_scaled(const struct rewriter *r, const struct node *n, double *factor)
{
    const bool divides = rewrite_is(n, &op_div);
    if (!divides && !rewrite_is(n, &op_mul))
        return -1;
    for (int i = 0; i < (divides ? 1 : 2); i++) {
        double number;
        if (!match_scalar(r, n->in[1 - i], &number) ||
            !shape_equal(&r->g->values[n->in[i]].shape, &r->g->values[n->out[0]].shape))
            continue;
        *factor = divides ? 1.0 / number : number;
        return isfinite(*factor) ? i : -1;
    }
    return -1;
}

bool match_close(double got, double exact)
{
    return fabs(got - exact) <= 3.0 / (1 << 24) * fabs(exact);
}

/* Whether input k of an element-wise node, or its only one, has the shape of the result: nothing was broadcast. */
static bool keeps_shape(const struct rewriter *r, const struct node *n, int k)
{
    return shape_equal(&r->g->values[n->in[k]].shape, &r->g->values[n->out[0]].shape);
}

bool match_affine_step(const struct rewriter *r, const struct node *n, struct match_affine *a)
{
    double c = 0.0;
    const int place = match_scalar_operand(r, n, &c), other = place == 0;
    if (!keeps_shape(r, n, other))
        return false;
    if (rewrite_is(n, &op_neg)) {
        a->scale = -a->scale;
    } else if (place >= 0 && rewrite_is(n, &op_add)) {
        a->shift += a->scale * c;
    } else if (place >= 0 && rewrite_is(n, &op_sub)) {
        a->shift += place == 1 ? -a->scale * c : a->scale * c;
        a->scale = place == 1 ? a->scale : -a->scale;
    } else if (place >= 0 && rewrite_is(n, &op_mul)) {
        a->scale *= c;
    } else if (place == 1 && rewrite_is(n, &op_div)) {
        a->scale /= c;
    } else {
        return false;
    }
    a->value = n->in[other];
    return true;
}

struct match_affine match_affine(const struct rewriter *r, int value, struct match *m)
{
    struct match_affine a = {.value = value, .scale = 1.0};
    struct node *n;
    while (!m->full && (n = rewrite_sole_producer(r, a.value)) && match_affine_step(r, n, &a))
        match_add(m, n);
    return a;
}

int match_square(const struct rewriter *r, int value, struct match *m, int *other)
{
    struct node *n = match_producer(r, value);
    double power;
    if (!n || n->n_in != 2)
        return -1;
    *other = n->in[rewrite_is(n, &op_mul)];
    if (!rewrite_is(n, &op_mul) &&
        !(rewrite_is(n, &op_pow) && match_scalar(r, n->in[1], &power) && power == 2.0))
        return -1;
    match_add(m, n);
    return n->in[0];
}

/* ---- quotients -------------------------------------------------------------------------------------------- */

static void add_factor(struct match_quotient *q, int value, bool below)
{
    int *const list = below ? q->den : q->num, *const n = below ? &q->n_den : &q->n_num;
    if (*n == COUNT_OF(q->num))
        q->full = true;
    else
        list[(*n)++] = value;
}

static void factors_of_node(const struct rewriter *r, struct node *n, bool below, struct match_quotient *q,
                            struct match *m);

static void factors_of(const struct rewriter *r, int value, bool below, struct match_quotient *q,
                       struct match *m)
{
    struct node *n = rewrite_sole_producer(r, value);
    double c;
    if (match_scalar(r, value, &c)) {
        q->scale = below ? q->scale / c : q->scale * c;
    } else if (n && !m->full &&
               (rewrite_is(n, &op_mul) || rewrite_is(n, &op_div) || rewrite_is(n, &op_reciprocal))) {
        match_add(m, n);
        factors_of_node(r, n, below, q, m);
    } else {
        add_factor(q, value, below);
    }
}

/* No deeper than a match has nodes: each level adds one. */
static void factors_of_node(const struct rewriter *r, struct node *n, bool below, struct match_quotient *q,
                            struct match *m)
{
    if (rewrite_is(n, &op_reciprocal)) {
        factors_of(r, n->in[0], !below, q, m);
        return;
    }
    factors_of(r, n->in[0], below, q, m);
    factors_of(r, n->in[1], rewrite_is(n, &op_div) ? !below : below, q, m);
}

struct match_quotient match_quotient(const struct rewriter *r, struct node *n, struct match *m)
{
    struct match_quotient q = {.scale = 1.0};
    factors_of_node(r, n, false, &q, m);
    return q;
}

/* ---- polynomials ------------------------------------------------------------------------------------------ */

/* False when the product has a higher degree than fits. */
static bool multiply(double a[MATCH_COEFFICIENTS], const double b[MATCH_COEFFICIENTS])
{
    double product[2 * MATCH_COEFFICIENTS] = {0};
    for (int i = 0; i < MATCH_COEFFICIENTS; i++)
        for (int k = 0; k < MATCH_COEFFICIENTS; k++)
            product[i + k] += a[i] * b[k];
    for (int i = MATCH_COEFFICIENTS; i < COUNT_OF(product); i++)
        if (product[i] != 0.0)
            return false;
    memcpy(a, product, MATCH_COEFFICIENTS * sizeof *a);
    return true;
}

/* a ^ c for a whole c from 1 to 3. */
static bool power(double a[MATCH_COEFFICIENTS], double c)
{
    double base[MATCH_COEFFICIENTS];
    memcpy(base, a, sizeof base);
    if (c != 1.0 && c != 2.0 && c != 3.0)
        return false;
    for (int i = 1; i < (int)c; i++)
        if (!multiply(a, base))
            return false;
    return true;
}

static void scale(double a[MATCH_COEFFICIENTS], double c)
{
    for (int i = 0; i < MATCH_COEFFICIENTS; i++)
        a[i] *= c;
}

/* a, of the first input of node n, becomes what the node computes of it. */
static bool apply(const struct rewriter *r, const struct node *n, int x, double a[MATCH_COEFFICIENTS],
                  struct match *m)
{
    double b[MATCH_COEFFICIENTS], c;
    if (rewrite_is(n, &op_neg)) {
        scale(a, -1.0);
        return true;
    }
    if (n->n_in != 2)
        return false;
    if (rewrite_is(n, &op_pow))
        return match_scalar(r, n->in[1], &c) && power(a, c);
    if (rewrite_is(n, &op_div) && match_scalar(r, n->in[1], &c)) {
        scale(a, 1.0 / c);
        return true;
    }
    const bool sub = rewrite_is(n, &op_sub);
    if (!match_polynomial(r, n->in[1], x, b, m))
        return false;
    if (rewrite_is(n, &op_mul))
        return multiply(a, b);
    if (!sub && !rewrite_is(n, &op_add))
        return false;
    for (int i = 0; i < MATCH_COEFFICIENTS; i++)
        a[i] += sub ? -b[i] : b[i];
    return true;
}

bool match_polynomial(const struct rewriter *r, int value, int x, double out[MATCH_COEFFICIENTS],
                      struct match *m)
{
    double c;
    memset(out, 0, MATCH_COEFFICIENTS * sizeof *out);
    if (value == x) {
        out[1] = 1.0;
        return true;
    }
    if (match_scalar(r, value, &c)) {
        out[0] = c;
        return true;
    }
    struct node *n = match_producer(r, value);
    if (!n || !shape_equal(&r->g->values[value].shape, &r->g->values[x].shape))
        return false;
    match_add(m, n);
    return !m->full && match_polynomial(r, n->in[0], x, out, m) && apply(r, n, x, out, m);
}
