/* squeeze_excite.c: the gate of a squeeze-and-excite block: the mean of each channel of a map, and two small layers of these in
 * one. Made by a rewrite only, so that an algorithm can compute all of it in one launch. */
#include "ops/rules.h"

enum { X, W1, B1, W2, B2 };

/* Weights [outputs, inputs] of a linear layer, or with ones behind them those of a 1x1 convolution. */
static enum clcnn_status check_weights(const struct infer *in, int which, int32_t inputs,
                                       struct clcnn_err *err)
{
    const struct clcnn_shape *w = &in->in[which];
    if (w->rank != in->in[W1].rank || (w->rank != 2 && w->rank != in->in[X].rank) || w->dim[1] != inputs ||
        shape_count_from(w, 2) != 1)
        return shape_fail(in, err, "weights %s are not those of a layer of %d values", SHAPE(w), (int)inputs);
    return CLCNN_OK;
}

static enum clcnn_status infer_squeeze_excite(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[X], *w1 = &in->in[W1], *w2 = &in->in[W2];
    enum clcnn_status st;

    TRY(rule_spatial(in, x, err));
    TRY(check_weights(in, W1, x->dim[1], err));
    TRY(check_weights(in, W2, w1->dim[0], err));
    TRY(rule_vector(in, B1, "first bias", w1->dim[0], err));
    TRY(rule_vector(in, B2, "bias", w2->dim[0], err));
    in->n_out = 1;
    in->out[0] = *w2;
    in->out[0].dim[0] = x->dim[0];
    in->out[0].dim[1] = w2->dim[0];
done:
    return st;
}

static double macs_squeeze_excite(const struct infer *in)
{
    return (double)in->in[X].dim[0] * (double)(shape_count(&in->in[W1]) + shape_count(&in->in[W2]));
}

/* Not `fuses`: no sum follows what makes a gate. */
const struct op_def op_squeeze_excite = {
    .name = "squeeze_excite",
    .doc = "mean of each channel of x[N,C,*spatial], a layer of w1[R,C] and b1[R], an activation, a layer of "
           "w2[K,R] and b2[K]; made by rewrites on GPUs",
    .inputs = "x w1 b1? w2 b2?",
    .attrs_size = sizeof(struct squeeze_excite_attrs),
    .infer = infer_squeeze_excite,
    .macs = macs_squeeze_excite,
    .by_item = true,
    .internal = true,
};
