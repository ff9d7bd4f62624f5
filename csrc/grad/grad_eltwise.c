/* grad_eltwise.c: functions of two elements, and choices: what broadcasting repeated is added up again. */
#include "grad/grad.h"

#define A (g->node.in[0])
#define B (g->node.in[1])
#define Y (g->node.out[0])
#define DY (g->dy[0])

/* Input i gets `value`, in its own shape. */
static void give(struct grad *g, int i, int value)
{
    const struct clcnn_shape shape = grad_shape(g, g->node.in[i]);

    grad_give(g, i, grad_sum_to(g, value, &shape));
}

void grad_add_rule(struct grad *g)
{
    if (grad_wants(g, 0))
        give(g, 0, DY);
    if (grad_wants(g, 1))
        give(g, 1, DY);
}

void grad_sub_rule(struct grad *g)
{
    if (grad_wants(g, 0))
        give(g, 0, DY);
    if (grad_wants(g, 1))
        give(g, 1, grad_of(g, &op_neg, DY));
}

void grad_mul_rule(struct grad *g)
{
    if (grad_wants(g, 0))
        give(g, 0, grad_mul(g, DY, B));
    if (grad_wants(g, 1))
        give(g, 1, grad_mul(g, DY, A));
}

void grad_div_rule(struct grad *g)
{
    if (grad_wants(g, 0))
        give(g, 0, grad_div(g, DY, B));
    if (grad_wants(g, 1))
        give(g, 1, grad_of(g, &op_neg, grad_div(g, grad_mul(g, DY, Y), B)));
}

/* minimum and maximum: to the one that it was, to both by halves where they are equal. */
void grad_extreme(struct grad *g)
{
    for (int i = 0; i < 2; i++) {
        if (!grad_wants(g, i))
            continue;
        const int other = g->node.in[1 - i], own = g->node.in[i];
        const int ahead = g->node.op == &op_maximum ? grad_sub(g, own, other) : grad_sub(g, other, own);
        const int share = grad_plus(g, grad_scale(g, grad_of(g, &op_sign, ahead), 0.5), 0.5);
        give(g, i, grad_mul(g, DY, share));
    }
}

void grad_pow(struct grad *g)
{
    if (grad_wants(g, 0)) {
        const int less = grad_of_two(g, &op_pow, A, grad_plus(g, B, -1.0));
        give(g, 0, grad_mul(g, DY, grad_mul(g, B, less)));
    }
    if (grad_wants(g, 1)) /* 0 at a = 0, where the logarithm is not finite */
        give(g, 1, grad_masked(g, grad_mul(g, DY, grad_mul(g, Y, grad_of(g, &op_log, A))), A));
}

/* a - b * n with a whole n, which is what it is next to a and b. */
void grad_mod(struct grad *g)
{
    if (grad_wants(g, 0))
        give(g, 0, DY);
    if (grad_wants(g, 1)) {
        const int whole = grad_of(g, &op_round, grad_div(g, grad_sub(g, A, Y), B));
        give(g, 1, grad_of(g, &op_neg, grad_mul(g, DY, whole)));
    }
}

void grad_relu_grad(struct grad *g)
{
    if (grad_wants(g, 0))
        give(g, 0, grad_masked(g, DY, B));
}

/* Gradients of functions: A times the slope at B. `bend` is the second derivative at B. */
static void grad_slope(struct grad *g, int (*bend)(struct grad *g, int b))
{
    if (grad_wants(g, 0))
        give(g, 0, grad_of_two(g, g->node.op, DY, B));
    if (grad_wants(g, 1))
        give(g, 1, grad_mul(g, grad_mul(g, DY, A), bend(g, B)));
}

/* The density of the normal distribution, times 2 - b^2. */
static int gelu_bend(struct grad *g, int b)
{
    const int squared = grad_mul(g, b, b), e = grad_of(g, &op_exp, grad_scale(g, squared, -0.5));
    return grad_mul(g, grad_scale(g, e, 0.3989422804014327), grad_sub(g, grad_number(g, 2.0), squared));
}

/* s (1 - s) (2 + b (1 - 2 s)), s the sigmoid of b */
static int silu_bend(struct grad *g, int b)
{
    const int s = grad_of(g, &op_sigmoid, b), rest = grad_sub(g, grad_number(g, 1.0), s);
    return grad_mul(g, grad_mul(g, s, rest), grad_plus(g, grad_mul(g, b, grad_sub(g, rest, s)), 2.0));
}

/* 1/3 between -3 and 3 */
static int hard_swish_bend(struct grad *g, int b)
{
    const int apart = grad_sub(g, grad_number(g, 3.0), grad_of(g, &op_abs, b));
    return grad_masked(g, grad_number(g, 1.0 / 3.0), apart);
}

void grad_gelu_grad(struct grad *g)
{
    grad_slope(g, gelu_bend);
}

void grad_silu_grad(struct grad *g)
{
    grad_slope(g, silu_bend);
}

void grad_hard_swish_grad(struct grad *g)
{
    grad_slope(g, hard_swish_bend);
}

void grad_prelu(struct grad *g)
{
    const int x = A, rank = grad_shape(g, x).rank;
    const struct clcnn_shape shape = grad_shape(g, B);
    const bool listed = shape.rank == 1 && rank >= 2; /* one a channel */

    if (grad_wants(g, 0)) {
        const int right = grad_masked(g, DY, x), slope = listed ? grad_channels(g, B, rank) : B;
        grad_give(g, 0, grad_add(g, right, grad_mul(g, grad_sub(g, DY, right), slope)));
    }
    if (grad_wants(g, 1)) {
        const int all = grad_mul(g, grad_sub(g, DY, grad_masked(g, DY, x)), x);
        grad_give(g, 1, listed && shape.dim[0] > 1 ? grad_sum_channels(g, all) : grad_sum_to(g, all, &shape));
    }
}

void grad_where(struct grad *g)
{
    const int cond = A;

    if (grad_wants(g, 1))
        give(g, 1, grad_node(g, &op_where, NULL, (const int[]){cond, DY, grad_number(g, 0.0)}, 3));
    if (grad_wants(g, 2))
        give(g, 2, grad_node(g, &op_where, NULL, (const int[]){cond, grad_number(g, 0.0), DY}, 3));
}

/* The same key and layer give the same mask. */
void grad_dropout_train(struct grad *g)
{
    if (grad_wants(g, 0))
        grad_give(g, 0,
                  grad_node(g, &op_dropout_train, g->node.attrs, (const int[]){g->dy[0], g->node.in[1]}, 2));
}
