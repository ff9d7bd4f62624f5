/* grad_rotary.c: rotary position embedding. */
#include "grad/grad.h"

#define DY (g->dy[0])

/* turned(x), as the operator's definition has it: the embedding with cos 0 and sin 1. */
static int turned(struct grad *g, int x)
{
    const struct clcnn_shape shape = grad_shape(g, g->node.in[1]);
    const int in[] = {x, grad_full(g, &shape, 0.0), grad_full(g, &shape, 1.0)};

    return grad_node(g, &op_rotary_embedding, g->node.attrs, in, 3);
}

/* y = x * cos + turned(x) * sin, and turned is its own inverse but for the sign. */
void grad_rotary_embedding(struct grad *g)
{
    const int x = g->node.in[0], cos = g->node.in[1], sin = g->node.in[2];
    const struct clcnn_shape shape = grad_shape(g, cos);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_sub(g, grad_mul(g, DY, cos), turned(g, grad_mul(g, DY, sin))));
    if (grad_wants(g, 1))
        grad_give(g, 1, grad_sum_to(g, grad_mul(g, DY, x), &shape));
    if (grad_wants(g, 2))
        grad_give(g, 2, grad_sum_to(g, grad_mul(g, DY, turned(g, x)), &shape));
}
