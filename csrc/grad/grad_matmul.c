/* grad_matmul.c: matrix products. */
#include "grad/grad.h"

static int gemm(struct grad *g, int a, bool trans_a, int b, bool trans_b, float alpha)
{
    const struct gemm_attrs attrs = {.alpha = alpha, .beta = 1.0f, .trans_a = trans_a, .trans_b = trans_b};

    return grad_node(g, &op_gemm, &attrs, (const int[]){a, b, -1}, 3);
}

/* All dimensions but the last as rows. */
static int as_rows(struct grad *g, int x)
{
    const struct clcnn_shape s = grad_shape(g, x);
    const int32_t last = s.rank ? s.dim[s.rank - 1] : 1;

    return grad_reshape(g, x,
                        &(struct clcnn_shape){.rank = 2, .dim = {(int32_t)(shape_count(&s) / last), last}});
}

void grad_linear(struct grad *g)
{
    const int x = g->node.in[0], w = g->node.in[1], dy = g->dy[0];
    const struct clcnn_shape shape = grad_shape(g, x);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_reshape(g, gemm(g, as_rows(g, dy), false, w, false, 1.0f), &shape));
    if (grad_wants(g, 1))
        grad_give(g, 1, gemm(g, as_rows(g, dy), true, as_rows(g, x), false, 1.0f));
    if (grad_wants(g, 2))
        grad_give(g, 2, grad_reduce(g, &op_reduce_sum, as_rows(g, dy), 1u, false));
}

/* The operands of matmul as matrices: a vector is a row at the left and a column at the right. */
static struct clcnn_shape as_matrix(const struct clcnn_shape *s, bool left)
{
    if (s->rank != 1)
        return *s;
    return (struct clcnn_shape){.rank = 2, .dim = {left ? 1 : s->dim[0], left ? s->dim[0] : 1}};
}

void grad_matmul(struct grad *g)
{
    const int a = g->node.in[0], b = g->node.in[1];
    const struct clcnn_shape sa = grad_shape(g, a), sb = grad_shape(g, b);
    const struct clcnn_shape ma = as_matrix(&sa, true), mb = as_matrix(&sb, false);
    struct clcnn_shape out = grad_shape(g, g->dy[0]);

    /* The result with both of its last dimensions. */
    out.rank -= (sa.rank > 1) + (sb.rank > 1);
    out.dim[out.rank++] = ma.dim[ma.rank - 2];
    out.dim[out.rank++] = mb.dim[mb.rank - 1];
    if (grad_wants(g, 0)) {
        const int dy = grad_reshape(g, g->dy[0], &out), other = grad_swap_last(g, grad_reshape(g, b, &mb));
        grad_give(g, 0, grad_reshape(g, grad_sum_to(g, grad_of_two(g, &op_matmul, dy, other), &ma), &sa));
    }
    if (grad_wants(g, 1)) {
        const int dy = grad_reshape(g, g->dy[0], &out), other = grad_swap_last(g, grad_reshape(g, a, &ma));
        grad_give(g, 1, grad_reshape(g, grad_sum_to(g, grad_of_two(g, &op_matmul, other, dy), &mb), &sb));
    }
}

void grad_gemm(struct grad *g)
{
    const struct gemm_attrs *attrs = g->node.attrs;
    const int a = g->node.in[0], b = g->node.in[1], dy = g->dy[0];
    const bool ta = attrs->trans_a, tb = attrs->trans_b;

    if (grad_wants(g, 0))
        grad_give(g, 0,
                  ta ? gemm(g, b, tb, dy, true, attrs->alpha) : gemm(g, dy, false, b, !tb, attrs->alpha));
    if (grad_wants(g, 1))
        grad_give(g, 1,
                  tb ? gemm(g, dy, true, a, ta, attrs->alpha) : gemm(g, a, !ta, dy, false, attrs->alpha));
    if (grad_wants(g, 2)) {
        const struct clcnn_shape c = grad_shape(g, g->node.in[2]);
        grad_give(g, 2, grad_scale(g, grad_sum_to(g, dy, &c), attrs->beta));
    }
}
