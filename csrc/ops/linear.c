/* linear.c: matrix products: linear (torch.nn.functional.linear), matmul (numpy.matmul), gemm (ONNX Gemm). */
#include "ops/rules.h"

static enum clcnn_status infer_linear(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *w = &in->in[1];

    if (w->rank != 2)
        return shape_fail(in, err, "weights have shape %s, expected [out, in]", SHAPE(w));
    if (x->rank < 1 || x->dim[x->rank - 1] != w->dim[1]) {
        return shape_fail(in, err, "input %s must end in %d features, as weights %s expect", SHAPE(x),
                          (int)w->dim[1], SHAPE(w));
    }
    in->n_out = 1;
    in->out[0] = *x;
    in->out[0].dim[x->rank - 1] = w->dim[0];
    return rule_vector(in, 2, "bias", w->dim[0], err);
}

static double macs_linear(const struct infer *in)
{
    return (double)shape_count(&in->out[0]) * in->in[1].dim[1];
}

/* ---- matmul -------------------------------------------------------------------------------------------- */

static enum clcnn_status infer_matmul(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *a = &in->in[0], *b = &in->in[1];
    struct clcnn_shape *out = &in->out[0];
    const struct matmul_attrs *views = in->attrs;
    /* Leading dimensions, which broadcast; NumPy sees a vector as a row at the left and as a column at the
     * right. */
    struct clcnn_shape lead_a = *a, lead_b = *b;
    enum clcnn_status st = CLCNN_OK;

    if (views->viewed) { /* a rewrite has checked it */
        in->n_out = 1;
        in->out[0] = views->result;
        return CLCNN_OK;
    }
    if (a->rank < 1 || b->rank < 1)
        return shape_fail(in, err, "operands %s and %s must have at least one dimension", SHAPE(a), SHAPE(b));
    int32_t inner_b = b->dim[b->rank == 1 ? 0 : b->rank - 2];
    if (a->dim[a->rank - 1] != inner_b) {
        return shape_fail(in, err, "the last dimension of %s (%d) must equal the %s of %s (%d)", SHAPE(a),
                          (int)a->dim[a->rank - 1], b->rank == 1 ? "only one" : "last but one", SHAPE(b),
                          (int)inner_b);
    }
    lead_a.rank = a->rank > 2 ? a->rank - 2 : 0;
    lead_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    if (!broadcast_shapes(&lead_a, &lead_b, out)) {
        return shape_fail(in, err,
                          "the leading dimensions of %s and %s do not broadcast (sizes must be equal or 1)",
                          SHAPE(a), SHAPE(b));
    }
    in->n_out = 1;
    if (a->rank > 1)
        TRY(rule_push(in, out, a->dim[a->rank - 2], err));
    if (b->rank > 1)
        TRY(rule_push(in, out, b->dim[b->rank - 1], err));
done:
    return st;
}

static double macs_matmul(const struct infer *in)
{
    const struct matmul_attrs *a = in->attrs;
    if (a->viewed)
        return (double)shape_count(&in->out[0]) * a->size[4];
    return (double)shape_count(&in->out[0]) * in->in[0].dim[in->in[0].rank - 1];
}

/* ---- gemm ---------------------------------------------------------------------------------------------- */

static enum clcnn_status infer_gemm(struct infer *in, struct clcnn_err *err)
{
    const struct gemm_attrs *g = in->attrs;
    const struct clcnn_shape *a = &in->in[0], *b = &in->in[1], *c = &in->in[2];
    struct clcnn_shape *out = &in->out[0], both;

    if (a->rank != 2 || b->rank != 2)
        return shape_fail(in, err, "operands %s and %s must have two dimensions", SHAPE(a), SHAPE(b));
    if (a->dim[!g->trans_a] != b->dim[g->trans_b != 0]) {
        return shape_fail(in, err, "a %s with trans_a=%d has %d columns but b %s with trans_b=%d has %d rows",
                          SHAPE(a), (int)g->trans_a, (int)a->dim[!g->trans_a], SHAPE(b), (int)g->trans_b,
                          (int)b->dim[g->trans_b != 0]);
    }
    in->n_out = 1;
    *out = (struct clcnn_shape){.rank = 2, .dim = {a->dim[g->trans_a != 0], b->dim[!g->trans_b]}};
    if (input_present(in, 2) && !(broadcast_shapes(out, c, &both) && shape_equal(&both, out)))
        return shape_fail(in, err, "c of shape %s does not broadcast to %s", SHAPE(c), SHAPE(out));
    return CLCNN_OK;
}

static double macs_gemm(const struct infer *in)
{
    const struct gemm_attrs *g = in->attrs;

    return (double)shape_count(&in->out[0]) * in->in[0].dim[!g->trans_a];
}

static const struct clcnn_attr_info gemm_table[] = {
    ATTR(FLOAT, gemm_attrs, alpha, 1.0, "factor of the product"),
    ATTR(FLOAT, gemm_attrs, beta, 1.0, "factor of c"),
    ATTR(BOOL, gemm_attrs, trans_a, 0, "a is [K,M]"),
    ATTR(BOOL, gemm_attrs, trans_b, 0, "b is [N,K]"),
};

const struct op_def op_linear = {
    .name = "linear",
    .doc = "x[...,in] times the transpose of w[out,in], plus b[out]",
    .inputs = "x w b?",
    .infer = infer_linear,
    .macs = macs_linear,
    .fuses = true,
};

const struct op_def op_matmul = {
    .name = "matmul",
    .doc = "matrix product as numpy.matmul: leading dimensions broadcast, one dimension is a row or a column",
    .inputs = "a b",
    .attrs_size = sizeof(struct matmul_attrs),
    .infer = infer_matmul,
    .macs = macs_matmul,
    .fuses = true,
};

const struct op_def op_gemm = {
    .name = "gemm",
    .doc = "alpha * op(a) op(b) + beta * c with a[M,K], b[K,N] and c broadcast to [M,N]",
    .inputs = "a b c?",
    ATTRS(gemm_table, gemm_attrs),
    .infer = infer_gemm,
    .macs = macs_gemm,
    .fuses = true,
};
