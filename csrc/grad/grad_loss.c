/* grad_loss.c: losses. */
#include "grad/grad.h"

void grad_cross_entropy(struct grad *g)
{
    const int *in = g->node.in;

    if (grad_wants(g, 0))
        grad_give(
            g, 0,
            grad_node(g, &op_cross_entropy_grad, g->node.attrs, (const int[]){in[0], in[1], g->dy[0]}, 3));
}
