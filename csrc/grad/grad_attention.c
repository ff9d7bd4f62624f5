/* grad_attention.c: scaled dot-product attention: what Dao et al., "FlashAttention" (2022), appendix B.2, write down, with the probabilities
 * computed again. */
#include <math.h>

#include "grad/grad.h"

enum { Q, K, V, MASK };

#define DY (g->dy[0])

/* Nothing for the columns that a row sees, minus infinity for those behind it: what is_causal adds to the scores. */
static int causal_mask(struct grad *g, int32_t rows, int32_t columns)
{
    int mask;
    float *values = grad_constant(g, &(struct clcnn_shape){.rank = 2, .dim = {rows, columns}}, &mask);

    for (int32_t i = 0; values && i < rows; i++) {
        for (int32_t j = 0; j < columns; j++)
            values[(int64_t)i * columns + j] = j > i ? -INFINITY : 0.0f;
    }
    return mask;
}

static int probabilities(struct grad *g, const struct attention_attrs *a)
{
    const int *in = g->node.in;
    int scores = grad_of_two(g, &op_matmul, in[Q], grad_swap_last(g, in[K]));

    scores = grad_scale(g, scores, a->scale);
    if (g->node.n_in > MASK && in[MASK] >= 0)
        scores = grad_add(g, scores, in[MASK]);
    if (a->is_causal)
        scores = grad_add(g, scores, causal_mask(g, a->size[2], a->size[3]));
    return grad_node(g, &op_softmax, &(struct dim_attrs){grad_shape(g, in[Q]).rank - 1}, &scores, 1);
}

/* The gradient of the scores: p * (dy v^T - the sum of dy * y over a row). */
static int scores_back(struct grad *g, int p)
{
    const unsigned last = 1u << (grad_shape(g, DY).rank - 1);
    const int dp = grad_of_two(g, &op_matmul, DY, grad_swap_last(g, g->node.in[V]));
    const int along = grad_reduce(g, &op_reduce_sum, grad_mul(g, DY, g->node.out[0]), last, true);

    return grad_mul(g, p, grad_sub(g, dp, along));
}

void grad_scaled_dot_product_attention(struct grad *g)
{
    const struct attention_attrs *a = g->node.attrs;
    const int *in = g->node.in;
    bool scored = false;

    for (int i = Q; i <= MASK; i++)
        scored |= i != V && grad_wants(g, i);
    if (!scored && !grad_wants(g, V))
        return;
    const int p = probabilities(g, a), ds = scored ? scores_back(g, p) : -1;
    if (grad_wants(g, Q))
        grad_give(g, Q, grad_scale(g, grad_of_two(g, &op_matmul, ds, in[K]), a->scale));
    if (grad_wants(g, K))
        grad_give(g, K, grad_scale(g, grad_of_two(g, &op_matmul, grad_swap_last(g, ds), in[Q]), a->scale));
    if (grad_wants(g, V))
        grad_give(g, V, grad_of_two(g, &op_matmul, grad_swap_last(g, p), DY));
    if (grad_wants(g, MASK)) {
        const struct clcnn_shape mask = grad_shape(g, in[MASK]);
        grad_give(g, MASK, grad_sum_to(g, ds, &mask));
    }
}
