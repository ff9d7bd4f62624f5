/* rewrite_act.c: activations that exporters write out become one operator, which an epilogue can take.
 *
 *   x sigmoid(a x), x (1 + tanh(a x / 2)) / 2                     =>   swish, and silu where a is 1
 *   x (1 + erf(x / sqrt 2)) / 2                                   =>   gelu
 *   x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2             =>   gelu, approximate=tanh
 *   x tanh(softplus(x))                                           =>   mish
 *   clip(x + 3, 0, 6) / 6, and any a x + b clipped to 0 and 1     =>   hard_sigmoid
 *   x clip(x + 3, 0, 6) / 6                                       =>   hard_swish
 *   a relu(x)^2 + b                                               =>   star_relu
 *
 * Constants may be multiplied in at any place and factors may stand in any order: what counts is the polynomial within the
 * function, and what its result is multiplied by and added to. */
#include "graph/match.h"

#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588
#define GELU_CUBIC 0.044715

/* scale * f(a polynomial of x) + shift. */
struct wrapped {
    struct node *function;
    double scale, shift, inner[MATCH_COEFFICIENTS];
};

static bool is_polynomial(const double got[MATCH_COEFFICIENTS], double c0, double c1, double c3)
{
    const double exact[MATCH_COEFFICIENTS] = {c0, c1, 0.0, c3};
    for (int i = 0; i < MATCH_COEFFICIENTS; i++)
        if (!match_close(got[i], exact[i]))
            return false;
    return true;
}

/* The limits between which a function clips. */
static bool limits_of(const struct node *n, double *low, double *high)
{
    const struct eltwise_attrs *a = n->attrs;
    if (rewrite_is(n, &op_relu6)) {
        *low = 0.0;
        *high = 6.0;
        return true;
    }
    if (!rewrite_is(n, &op_clip))
        return false;
    *low = a->p0;
    *high = a->p1;
    return true;
}

/* Whether it is slope * x + at_0, clipped to 0 and 1. */
static bool is_hard_sigmoid(const struct wrapped *w, double *slope, double *at_0)
{
    const struct eltwise_attrs *a = w->function->attrs;
    double low = 0.0, high = 0.0;
    *slope = w->scale * w->inner[1];
    *at_0 = w->scale * w->inner[0];
    if (w->shift != 0.0 || w->inner[2] != 0.0 || w->inner[3] != 0.0)
        return false;
    if (limits_of(w->function, &low, &high))
        return low == 0.0 && match_close(w->scale * high, 1.0);
    if (!rewrite_is(w->function, &op_hard_sigmoid) || !match_close(w->scale, 1.0))
        return false;
    *slope = *slope * a->p0;
    *at_0 = *at_0 * a->p0 + a->p1;
    return true;
}

/* An activation, and what it is called with. */
struct gate {
    const struct op_def *op; /* NULL: none */
    int n_attrs;
    struct clcnn_attr attr;
};

/* x * sigmoid(slope * x) */
static struct gate swish_of(double slope)
{
    if (match_close(slope, 1.0))
        return (struct gate){.op = &op_silu};
    return (struct gate){
        .op = &op_swish, .n_attrs = 1, .attr = {.name = "alpha", .kind = CLCNN_ATTR_FLOAT, .f = slope}};
}

/* What x times it is. */
static struct gate gate_of(const struct wrapped *w)
{
    const struct op_def *f = w->function->op;
    const bool half = match_close(w->scale, 0.5) && match_close(w->shift, 0.5);
    const bool plain = match_close(w->scale, 1.0) && w->shift == 0.0;
    const double slope = w->inner[1];
    double hard_slope, at_0;
    if (f == &op_sigmoid && plain && is_polynomial(w->inner, 0.0, slope, 0.0))
        return swish_of(slope);
    if (f == &op_tanh && half && is_polynomial(w->inner, 0.0, slope, 0.0))
        return swish_of(2.0 * slope);
    if (f == &op_erf && half && is_polynomial(w->inner, 0.0, SQRT_HALF, 0.0))
        return (struct gate){.op = &op_gelu};
    if (f == &op_tanh && half && is_polynomial(w->inner, 0.0, SQRT_2_OVER_PI, SQRT_2_OVER_PI * GELU_CUBIC))
        return (struct gate){.op = &op_gelu,
                             .n_attrs = 1,
                             .attr = {.name = "approximate", .kind = CLCNN_ATTR_ENUM, .s = "tanh"}};
    if (is_hard_sigmoid(w, &hard_slope, &at_0) && match_close(hard_slope, 1.0 / 6.0) &&
        match_close(at_0, 0.5))
        return (struct gate){.op = &op_hard_swish};
    return (struct gate){0};
}

/* What is left of `value` when arithmetic with constants and a function of one input are taken off; NULL as its function when it is
 * none. `argument` is what the function is applied to. */
static struct wrapped unwrap(const struct rewriter *r, int value, double scale, struct match *m,
                             int *argument)
{
    struct wrapped w = {0};
    const struct match_affine a = match_affine(r, value, m);
    struct node *f = rewrite_sole_producer(r, a.value);
    if (!f || f->n_in != 1)
        return w;
    match_add(m, f);
    *argument = f->in[0];
    return (struct wrapped){.function = f, .scale = scale * a.scale, .shift = scale * a.shift};
}

/* x * tanh(softplus(x)). */
static bool is_mish(const struct rewriter *r, const struct wrapped *w, int argument, int x, struct match *m)
{
    struct node *softplus = rewrite_sole_producer(r, argument);
    if (!rewrite_is(w->function, &op_tanh) || !softplus || !rewrite_is(softplus, &op_softplus) ||
        softplus->in[0] != x || !match_close(w->scale, 1.0) || w->shift != 0.0)
        return false;
    match_add(m, softplus);
    return true;
}

/* The activation of x that x * scale * `other` is. */
static struct gate find_gate(const struct rewriter *r, int x, int other, double scale, struct match *m)
{
    int argument = -1;
    struct wrapped w = unwrap(r, other, scale, m, &argument);
    if (!w.function || !shape_equal(&r->g->values[x].shape, &r->g->values[other].shape))
        return (struct gate){0};
    if (is_mish(r, &w, argument, x, m))
        return (struct gate){.op = &op_mish};
    return match_polynomial(r, argument, x, w.inner, m) ? gate_of(&w) : (struct gate){0};
}

/* Whether one node of this operator, applied to x, can stand for the pattern. */
static bool replaceable(const struct rewriter *r, const struct match *m, const struct node *last,
                        const struct op_def *op, int x)
{
    return op && shape_equal(&r->g->values[x].shape, &r->g->values[last->out[0]].shape) &&
           match_closed(r, m, last, op);
}

/* A product of x and something of x. */
static enum clcnn_status match_gate(struct rewriter *r, struct node *last, bool *done)
{
    struct match outer = {0};
    const struct match_quotient q = match_quotient(r, last, &outer);
    if (q.full || q.n_num != 2 || q.n_den != 0)
        return CLCNN_OK;
    for (int i = 0; i < 2; i++) {
        struct match m = outer;
        const int x = q.num[i];
        const struct gate gate = find_gate(r, x, q.num[1 - i], q.scale, &m);
        if (!replaceable(r, &m, last, gate.op, x))
            continue;
        const struct match_result result = {
            .op = gate.op, .n_in = 1, .in = {x}, .n_attrs = gate.n_attrs, .attrs = {gate.attr}};
        *done = true;
        return match_replace(r, &m, last, &result);
    }
    return CLCNN_OK;
}

/* A clip, and arithmetic with constants before and after it. */
static enum clcnn_status match_hard_sigmoid(struct rewriter *r, struct node *last, bool *done)
{
    struct match m = {0};
    double slope, at_0, low, high;
    struct wrapped w = {.function = last, .scale = 1.0};
    int argument = last->in[0];
    if (!limits_of(last, &low, &high)) {
        const struct match_quotient q = match_quotient(r, last, &m);
        if (q.full || q.n_num != 1 || q.n_den != 0)
            return CLCNN_OK;
        w = unwrap(r, q.num[0], q.scale, &m, &argument);
        if (!w.function || !limits_of(w.function, &low, &high))
            return CLCNN_OK;
    }
    const struct match_affine a = match_affine(r, argument, &m);
    w.inner[0] = a.shift;
    w.inner[1] = a.scale;
    if (m.n == 0 || !is_hard_sigmoid(&w, &slope, &at_0) ||
        !replaceable(r, &m, last, &op_hard_sigmoid, a.value))
        return CLCNN_OK;
    const struct match_result result = {
        .op = &op_hard_sigmoid,
        .n_in = 1,
        .in = {a.value},
        .n_attrs = 2,
        .attrs = {{.name = "alpha", .kind = CLCNN_ATTR_FLOAT, .f = slope},
                  {.name = "beta", .kind = CLCNN_ATTR_FLOAT, .f = at_0}},
    };
    *done = true;
    return match_replace(r, &m, last, &result);
}

/* Whether n is the square of a value, which is its first input then. */
static bool is_square(const struct rewriter *r, const struct node *n)
{
    double power;
    return (rewrite_is(n, &op_mul) && n->in[0] == n->in[1]) ||
           (rewrite_is(n, &op_pow) && match_scalar(r, n->in[1], &power) && power == 2.0);
}

/* A square of relu, or one step of arithmetic with a number behind what a square of relu has become. */
static enum clcnn_status match_star_relu(struct rewriter *r, struct node *last)
{
    struct match m = {0};
    struct match_affine of_star = {.scale = 1.0};
    const bool square = is_square(r, last);
    const bool step = !square && match_affine_step(r, last, &of_star);
    struct node *inner = square ? match_op(r, last->in[0], &op_relu)
                         : step ? match_op(r, of_star.value, &op_star_relu)
                                : NULL;
    if (!inner)
        return CLCNN_OK;
    match_add(&m, inner);
    if (!replaceable(r, &m, last, &op_star_relu, inner->in[0]))
        return CLCNN_OK;
    const struct eltwise_attrs *star = inner->attrs;
    const double alpha = square ? 1.0 : of_star.scale * (double)star->p0;
    const double beta = square ? 0.0 : of_star.scale * (double)star->p1 + of_star.shift;
    const struct match_result result = {
        .op = &op_star_relu,
        .n_in = 1,
        .in = {inner->in[0]},
        .n_attrs = 2,
        .attrs = {{.name = "alpha", .kind = CLCNN_ATTR_FLOAT, .f = alpha},
                  {.name = "beta", .kind = CLCNN_ATTR_FLOAT, .f = beta}},
    };
    return match_replace(r, &m, last, &result);
}

static bool of_floats(const struct rewriter *r, const struct node *n, int k)
{
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    return y->dtype == CLCNN_FLOAT32 && shape_equal(y, &r->g->values[n->in[k]].shape);
}

enum clcnn_status rewrite_find_activations(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        const bool product = rewrite_is(n, &op_mul) || rewrite_is(n, &op_div);
        const bool sum = rewrite_is(n, &op_add) || rewrite_is(n, &op_sub);
        const bool clips = rewrite_is(n, &op_clip) || rewrite_is(n, &op_relu6);
        bool done = false;
        if (n->dead || !(product || sum || clips || rewrite_is(n, &op_pow)))
            continue;
        if (!of_floats(r, n, 0) && !(n->n_in == 2 && of_floats(r, n, 1)))
            continue;
        if (product)
            TRY(match_gate(r, n, &done));
        if (!done && (product || clips))
            TRY(match_hard_sigmoid(r, n, &done));
        if (!done && !clips)
            TRY(match_star_relu(r, n));
    }
done:
    return st;
}
