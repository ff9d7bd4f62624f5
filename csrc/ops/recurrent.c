/* recurrent.c: one step of a recurrent layer, of which rewrites make what exporters and readers write out. */
#include "ops/rules.h"

/* Rows of x have `gates` values for each of h's; w and b, too. */
static enum clcnn_status check_cell(struct infer *in, int gates, int w, int b, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *h = &in->in[1];

    if (h->rank != 2)
        return shape_fail(in, err, "the state has shape %s, expected [rows, units]", SHAPE(h));
    const struct clcnn_shape all = {.rank = 2, .dim = {h->dim[0], gates * h->dim[1]}, .dtype = x->dtype};
    const struct clcnn_shape weights = {.rank = 2, .dim = {gates * h->dim[1], h->dim[1]}, .dtype = x->dtype};
    if (!shape_equal(x, &all))
        return shape_fail(in, err, "x has shape %s, expected %s: %d gates of the state %s", SHAPE(x),
                          SHAPE(&all), gates, SHAPE(h));
    if (!shape_equal(&in->in[w], &weights))
        return shape_fail(in, err, "weights have shape %s, expected %s", SHAPE(&in->in[w]), SHAPE(&weights));
    in->n_out = 1;
    in->out[0] = *h;
    return b >= 0 ? rule_vector(in, b, "bias", gates * h->dim[1], err) : CLCNN_OK;
}

static enum clcnn_status infer_lstm(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(check_cell(in, 4, 3, -1, err));
    if (!shape_equal(&in->in[2], &in->in[1]))
        return shape_fail(in, err, "the cell has shape %s, expected that of the state, %s", SHAPE(&in->in[2]),
                          SHAPE(&in->in[1]));
    in->n_out = 2;
    in->out[1] = in->in[1];
done:
    return st;
}

static enum clcnn_status infer_gru(struct infer *in, struct clcnn_err *err)
{
    return check_cell(in, 3, 2, 3, err);
}

static double macs_cell(const struct infer *in)
{
    return (double)shape_count(&in->in[0]) * in->in[1].dim[1];
}

const struct op_def op_lstm_cell = {
    .name = "lstm_cell",
    .doc =
        "a step of an LSTM: its next h and c, of what the input adds to the gates i, o, f and the new cell, "
        "x[N,4H], of h and c, [N,H], and of the recurrent weights r[4H,H]",
    .inputs = "x h c r",
    .infer = infer_lstm,
    .macs = macs_cell,
};

const struct op_def op_gru_cell = {
    .name = "gru_cell",
    .doc =
        "a step of a GRU: its next h, of what the input adds to the gates z, r and the new state, x[N,3H], "
        "of h[N,H], and of the recurrent weights r[3H,H] and their bias b[3H], applied before r",
    .inputs = "x h r b",
    .infer = infer_gru,
    .macs = macs_cell,
};
