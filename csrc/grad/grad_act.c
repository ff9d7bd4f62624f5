/* grad_act.c: functions of one element: dy times the slope, in existing nodes; by the result where that tells as much as x. */
#include <math.h>

#include "grad/grad.h"

#define X (g->node.in[0])
#define Y (g->node.out[0])
#define DY (g->dy[0])
#define ATTRS ((const struct eltwise_attrs *)g->node.attrs)
/* What a rule gives its only input, built under its name. */
#define RULE(name, value)            \
    void grad_##name(struct grad *g) \
    {                                \
        if (grad_wants(g, 0))        \
            grad_give(g, 0, value);  \
    }
/* The same with the slope alone. */
#define SLOPE(name, value) RULE(name, grad_mul(g, DY, value))

#define N(v) grad_number(g, v)
#define ADD(a, b) grad_add(g, a, b)
#define SUB(a, b) grad_sub(g, a, b)
#define MUL(a, b) grad_mul(g, a, b)
#define OF(op, x) grad_of(g, &op_##op, x)
#define SQUARED(x) square(g, x)

static int square(struct grad *g, int x)
{
    return MUL(x, x);
}

/* 1 / sqrt(x) and 1 / x */
static int over_root(struct grad *g, int x)
{
    return OF(reciprocal, OF(sqrt, x));
}

static int over(struct grad *g, int x)
{
    return OF(reciprocal, x);
}

/* dy where x is positive, and dy * slope elsewhere. */
static int by_side(struct grad *g, int slope)
{
    const int right = grad_masked(g, DY, X);

    return ADD(right, MUL(SUB(DY, right), slope));
}

/* dy where x lies between the two limits. */
static int between(struct grad *g, int x, double low, double high)
{
    const int above = grad_masked(g, DY, low == 0.0 ? x : grad_plus(g, x, -low));

    return grad_masked(g, above, SUB(N(high), x));
}

/* ---- clips ---- */

RULE(relu, grad_masked(g, DY, Y))
RULE(relu6, between(g, Y, 0.0, 6.0))
RULE(leaky_relu, by_side(g, N(ATTRS->p0)))
RULE(hard_sigmoid, grad_scale(g, between(g, Y, 0.0, 1.0), ATTRS->p0))
RULE(thresholded_relu, grad_masked(g, DY, grad_plus(g, X, -(double)ATTRS->p0)))
RULE(shrink, grad_masked(g, DY, grad_plus(g, OF(abs, X), -(double)ATTRS->p0)))

RULE(star_relu, grad_scale(g, MUL(DY, OF(relu, X)), 2.0 * (double)ATTRS->p0))
RULE(hard_swish, grad_of_two(g, &op_hard_swish_grad, DY, X))

/* 0 where `cond` is true; the limits themselves let gradients through. */
static int drop(struct grad *g, int dy, int cond)
{
    return grad_node(g, &op_where, NULL, (const int[]){cond, N(0.0), dy}, 3);
}

static int clip(struct grad *g)
{
    int dx = DY;

    if (ATTRS->p0 > -INFINITY)
        dx = drop(g, dx, grad_of_two(g, &op_less, X, N(ATTRS->p0)));
    if (ATTRS->p1 < INFINITY)
        dx = drop(g, dx, grad_of_two(g, &op_greater, X, N(ATTRS->p1)));
    return dx;
}
RULE(clip, clip(g))

/* ---- exponentials: where x is negative the result tells the slope ---- */

RULE(elu, by_side(g, grad_plus(g, Y, ATTRS->p0)))
RULE(celu, by_side(g, grad_plus(g, grad_scale(g, Y, 1.0 / ATTRS->p0), 1.0)))
static int selu(struct grad *g)
{
    const int right = grad_masked(g, DY, X);
    const double alpha = ATTRS->p0, gamma = ATTRS->p1;

    return ADD(grad_scale(g, right, gamma), MUL(SUB(DY, right), grad_plus(g, Y, gamma * alpha)));
}
RULE(selu, selu(g))
SLOPE(exp, Y)
SLOPE(log, over(g, X))
SLOPE(sqrt, grad_scale(g, over(g, Y), 0.5))

/* ---- soft steps ---- */

SLOPE(sigmoid, MUL(Y, SUB(N(1.0), Y)))
SLOPE(tanh, SUB(N(1.0), SQUARED(Y)))
SLOPE(softplus, OF(sigmoid, X))
SLOPE(softsign, over(g, SQUARED(grad_plus(g, OF(abs, X), 1.0))))
SLOPE(erf, grad_scale(g, OF(exp, OF(neg, SQUARED(X))), 1.1283791670955126))

static int swish(struct grad *g)
{
    const double alpha = (double)ATTRS->p0;
    const int share = OF(sigmoid, grad_scale(g, X, alpha));

    return ADD(share, grad_scale(g, MUL(MUL(X, share), SUB(N(1.0), share)), alpha));
}
SLOPE(swish, swish(g))
RULE(silu, grad_of_two(g, &op_silu_grad, DY, X))

static int mish(struct grad *g)
{
    const int t = OF(tanh, OF(softplus, X));

    return ADD(t, MUL(MUL(X, OF(sigmoid, X)), SUB(N(1.0), SQUARED(t))));
}
SLOPE(mish, mish(g))

static int gelu_of_tanh(struct grad *g)
{
    const double scale = 0.7978845608028654, cubic = 0.044715; /* sqrt(2 / pi) */
    const int xx = SQUARED(X);
    const int t = OF(tanh, MUL(X, grad_plus(g, grad_scale(g, xx, scale * cubic), scale)));
    const int inner = grad_plus(g, grad_scale(g, xx, 1.5 * scale * cubic), 0.5 * scale);

    return ADD(grad_scale(g, grad_plus(g, t, 1.0), 0.5), MUL(MUL(X, inner), SUB(N(1.0), SQUARED(t))));
}
RULE(gelu, ATTRS->choice ? MUL(DY, gelu_of_tanh(g)) : grad_of_two(g, &op_gelu_grad, DY, X))

/* ---- others ---- */

SLOPE(abs, OF(sign, X))
RULE(neg, OF(neg, DY))
SLOPE(reciprocal, OF(neg, SQUARED(Y)))
SLOPE(sin, OF(cos, X))
SLOPE(cos, OF(neg, OF(sin, X)))
SLOPE(tan, grad_plus(g, SQUARED(Y), 1.0))
SLOPE(asin, over_root(g, SUB(N(1.0), SQUARED(X))))
SLOPE(acos, OF(neg, over_root(g, SUB(N(1.0), SQUARED(X)))))
SLOPE(atan, over(g, grad_plus(g, SQUARED(X), 1.0)))
SLOPE(sinh, OF(cosh, X))
SLOPE(cosh, OF(sinh, X))
SLOPE(asinh, over_root(g, grad_plus(g, SQUARED(X), 1.0)))
SLOPE(acosh, over_root(g, grad_plus(g, SQUARED(X), -1.0)))
SLOPE(atanh, over(g, SUB(N(1.0), SQUARED(X))))
