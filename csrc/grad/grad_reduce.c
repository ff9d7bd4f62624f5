/* grad_reduce.c: reductions: dy goes to all elements that it came from. */
#include "grad/grad.h"

#define DY (g->dy[0])

/* A reduction's result, with the reduced dimensions as ones. */
static int kept(struct grad *g, int y)
{
    const struct ints *axes = &((const struct reduce_attrs *)g->node.attrs)->axes;
    struct clcnn_shape shape = grad_shape(g, g->node.in[0]);

    for (int i = 0; i < axes->n; i++)
        shape.dim[axes->v[i]] = 1;
    return grad_reshape(g, y, &shape);
}

void grad_reduce_sum(struct grad *g)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_expand(g, kept(g, DY), &x));
}

void grad_reduce_mean(struct grad *g)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), y = grad_shape(g, DY);
    const double share = (double)shape_count(&y) / (double)shape_count(&x);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_expand(g, grad_scale(g, kept(g, DY), share), &x));
}

/* Maximum and minimum: to all that are equal to it, in equal shares. */
void grad_reduce_extreme(struct grad *g)
{
    const struct ints *axes = &((const struct reduce_attrs *)g->node.attrs)->axes;
    unsigned dims = 0;

    if (!grad_wants(g, 0))
        return;
    for (int i = 0; i < axes->n; i++)
        dims |= 1u << axes->v[i];
    const int equal = grad_of_two(g, &op_equal, g->node.in[0], kept(g, g->node.out[0]));
    const int found = grad_of(g, &op_cast, equal);
    const int share = grad_div(g, kept(g, DY), grad_reduce(g, &op_reduce_sum, found, dims, true));
    grad_give(g, 0, grad_mul(g, found, share));
}

/* The product of the others: all of them over x; where one is 0, that one alone gets something. */
void grad_reduce_prod(struct grad *g)
{
    const struct ints *axes = &((const struct reduce_attrs *)g->node.attrs)->axes;
    const int x = g->node.in[0], zero = grad_number(g, 0.0);
    unsigned dims = 0;

    if (!grad_wants(g, 0))
        return;
    for (int i = 0; i < axes->n; i++)
        dims |= 1u << axes->v[i];
    const int is_zero = grad_of_two(g, &op_equal, x, zero);
    const int safe = grad_node(g, &op_where, NULL, (const int[]){is_zero, grad_number(g, 1.0), x}, 3);
    const int zeros = grad_reduce(g, &op_reduce_sum, grad_of(g, &op_cast, is_zero), dims, true);
    const int others = grad_sub(g, zeros, grad_of(g, &op_cast, is_zero)); /* zeros among them */
    const int rest = grad_div(g, grad_reduce(g, &op_reduce_prod, safe, dims, true), safe);
    const int hidden = grad_of_two(g, &op_greater, others, zero);
    const int factor = grad_node(g, &op_where, NULL, (const int[]){hidden, zero, rest}, 3);
    grad_give(g, 0, grad_mul(g, kept(g, DY), factor));
}

void grad_cumsum(struct grad *g)
{
    struct line_attrs a = *(const struct line_attrs *)g->node.attrs;

    a.reverse = !a.reverse;
    if (grad_wants(g, 0))
        grad_give(g, 0, grad_node(g, &op_cumsum, &a, &DY, 1));
}
