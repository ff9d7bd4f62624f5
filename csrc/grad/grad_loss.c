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

/* Of (softmax(x) - target) * dy, by 1 / N for the mean: for x what softmax does to v, for dy the sum of v times the rest. */
void grad_cross_entropy_grad(struct grad *g)
{
    const struct loss_attrs *a = g->node.attrs;
    const int x = g->node.in[0], labels = g->node.in[1], dy = g->node.in[2], v = g->dy[0];
    const struct clcnn_shape shape = grad_shape(g, x), losses = grad_shape(g, dy);
    const int32_t n = shape.dim[0];

    if (grad_wants(g, 0)) {
        const int p = grad_node(g, &op_softmax, &(struct dim_attrs){1}, &x, 1), pv = grad_mul(g, p, v);
        const int each =
            grad_reshape(g, dy, &(struct clcnn_shape){.rank = 2, .dim = {losses.rank ? n : 1, 1}});
        const int own = grad_sub(g, pv, grad_mul(g, p, grad_reduce(g, &op_reduce_sum, pv, 2u, true)));
        grad_give(g, 0, grad_mul(g, own, losses.rank ? each : grad_scale(g, each, 1.0 / n)));
    }
    if (grad_wants(g, 2)) {
        const int one = grad_full(g, &losses, 1.0);
        const int rest = grad_node(g, &op_cross_entropy_grad, a, (const int[]){x, labels, one}, 3);
        const int all = grad_mul(g, v, rest);
        grad_give(g, 2, grad_reduce(g, &op_reduce_sum, all, losses.rank ? 2u : 3u, false));
    }
}
