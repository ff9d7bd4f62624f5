/* attention.c: scaled dot-product attention, as PyTorch defines it. */
#include "ops/rules.h"

enum { Q, K, V, MASK };

static const char *const names[] = {"q", "k", "v"};

/* q [.., L, D], k [.., S, D] and v [.., S, E] have the same leading dimensions, at most two. */
static enum clcnn_status check_operands(const struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *q = &in->in[Q], *k = &in->in[K], *v = &in->in[V];
    const int rank = q->rank;

    if (rank < 2 || rank > 4)
        return shape_fail(in, err, "q of shape %s must have two to four dimensions", SHAPE(q));
    for (int i = K; i <= V; i++) {
        const struct clcnn_shape *x = &in->in[i];
        bool same = x->rank == rank;
        for (int d = 0; same && d < rank - 2; d++)
            same = x->dim[d] == q->dim[d];
        if (!same) {
            return shape_fail(
                in, err, "%s of shape %s and q of shape %s must differ in their last two dimensions only",
                names[i], SHAPE(x), SHAPE(q));
        }
    }
    if (q->dim[rank - 1] != k->dim[rank - 1])
        return shape_fail(in, err, "the last dimensions of q %s and k %s must be equal", SHAPE(q), SHAPE(k));
    if (k->dim[rank - 2] != v->dim[rank - 2])
        return shape_fail(in, err, "k of shape %s and v of shape %s must have as many rows", SHAPE(k),
                          SHAPE(v));
    return CLCNN_OK;
}

static enum clcnn_status check_mask(const struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *q = &in->in[Q], *mask = &in->in[MASK];
    struct clcnn_shape scores = *q, both;

    if (!input_present(in, MASK))
        return CLCNN_OK;
    scores.dim[q->rank - 1] = in->in[K].dim[q->rank - 2];
    if (!(broadcast_shapes(&scores, mask, &both) && shape_equal(&both, &scores)))
        return shape_fail(in, err, "attn_mask of shape %s does not broadcast to %s", SHAPE(mask),
                          SHAPE(&scores));
    return CLCNN_OK;
}

static enum clcnn_status infer_attention(struct infer *in, struct clcnn_err *err)
{
    struct attention_attrs *a = in->attrs;
    const struct clcnn_shape *q = &in->in[Q], *v = &in->in[V];
    const int rank = q->rank;
    enum clcnn_status st = CLCNN_OK;

    in->n_out = 1;
    if (a->viewed) { /* a rewrite has checked it */
        in->out[0] = a->result;
        return CLCNN_OK;
    }
    TRY(check_operands(in, err));
    TRY(check_mask(in, err));
    if (!isfinite(a->scale))
        return value_fail(in, err, "scale=%g must be finite", (double)a->scale);
    if (a->scale == 0.0f)
        a->scale = q->dim[rank - 1] > 0 ? (float)(1.0 / sqrt((double)q->dim[rank - 1])) : 1.0f;
    const int32_t sizes[] = {
        rank > 3 ? q->dim[0] : 1, rank > 2 ? q->dim[rank - 3] : 1,
        q->dim[rank - 2],         v->dim[rank - 2],
        q->dim[rank - 1],         v->dim[rank - 1],
    };
    for (int i = 0; i < COUNT_OF(sizes); i++)
        a->size[i] = sizes[i];
    in->out[0] = *q;
    in->out[0].dim[rank - 1] = v->dim[rank - 1];
done:
    return st;
}

static double macs_attention(const struct infer *in)
{
    const int32_t *size = ((const struct attention_attrs *)in->attrs)->size;

    return (double)size[0] * size[1] * size[2] * size[3] * ((double)size[4] + size[5]);
}

static const struct clcnn_attr_info attention_table[] = {
    ATTR(FLOAT, attention_attrs, scale, 0.0, "factor of the scores; 0: 1 / sqrt(D)"),
    ATTR(BOOL, attention_attrs, is_causal, 0, "row l of q sees rows 0 to l of k and v"),
};

const struct op_def op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .doc =
        "softmax(scale * q k^T + attn_mask) v for q[...,L,D], k[...,S,D], v[...,S,E] with the same leading "
        "dimensions, items and heads; attn_mask is added and broadcasts to [...,L,S]",
    .inputs = "q k v attn_mask?",
    ATTRS(attention_table, attention_attrs),
    .infer = infer_attention,
    .macs = macs_attention,
};
