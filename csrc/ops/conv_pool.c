/* conv_pool.c: a convolution with its epilogue, and a pooling of what comes out, in one. Made by a rewrite
 * only, so that an algorithm can pool in registers. */
#include "ops/rules.h"

static enum clcnn_status infer_conv_pool(struct infer *in, struct clcnn_err *err)
{
    struct conv_pool_attrs *a = in->attrs;
    struct clcnn_shape middle;
    enum clcnn_status st;

    TRY(rule_conv(in, &a->conv, &in->in[0], &in->in[1], &middle, err));
    TRY(rule_vector(in, 2, "bias", middle.dim[1], err));
    TRY(rule_pool(in, &a->pool, &middle, &in->out[0], err));
    a->middle.n = middle.rank - 2;
    for (int i = 0; i < a->middle.n; i++)
        a->middle.v[i] = middle.dim[2 + i];
    in->n_out = 1;
done:
    return st;
}

static double macs_conv_pool(const struct infer *in)
{
    const struct conv_pool_attrs *a = in->attrs;
    struct clcnn_shape middle = in->out[0];

    for (int i = 0; i < a->middle.n; i++)
        middle.dim[2 + i] = a->middle.v[i];
    return conv_macs_of(&in->in[1], &middle);
}

/* Not `fuses`: its epilogue lies before the pooling. */
const struct op_def op_conv_pool = {
    .name = "conv_pool",
    .doc =
        "convolution of x[N,C,*spatial] with w[K,C/groups,*kernel] and b[K], an activation, then the maximum "
        "or mean of small windows; made by rewrites",
    .inputs = "x w b?",
    .attrs_size = sizeof(struct conv_pool_attrs),
    .infer = infer_conv_pool,
    .macs = macs_conv_pool,
    .by_item = true,
    .internal = true,
};
