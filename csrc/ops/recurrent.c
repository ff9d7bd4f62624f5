/* recurrent.c: a step of a recurrent layer, and all of its steps, of which rewrites make what exporters and readers write out. */
#include "ops/rules.h"

#define SHARED_MOST_UNITS 1024   /* of which a work-item has as many weights as half of its registers */
#define SHARED_MOST_ROWS 32      /* work-items of a warp, which have one each */
#define SHARED_MOST_NUMBERS 4096 /* of the state in local memory, twice */
#define SHARED_MOST_PARTS 8

bool sequence_fits_group(size_t gates, size_t units)
{
    const size_t depth = round_up(units, SEQUENCE_TOGETHER);
    return gates * depth * depth <= SEQUENCE_MOST_WEIGHTS;
}

struct sequence_rows sequence_shared_rows(size_t units, size_t rows, size_t groups)
{
    const struct sequence_rows none = {0, 0};
    const size_t tiles = groups / ceil_div(units, SEQUENCE_UNITS);
    if (units > SHARED_MOST_UNITS || tiles == 0)
        return none;
    const size_t room = SHARED_MOST_NUMBERS / round_up(units, SEQUENCE_SHARED_TOGETHER);
    const size_t each = ceil_div(rows, tiles),
                 parts = ceil_div(each, room < SHARED_MOST_ROWS ? room : SHARED_MOST_ROWS);
    return parts <= SHARED_MOST_PARTS ? (struct sequence_rows){(int)ceil_div(each, parts), (int)parts} : none;
}

/* Of either kind of layer: x has `gates` values for each of h's in each of `rows` rows; w and b, too. */
static enum clcnn_status check_rows(struct infer *in, int gates, int w, int b, int32_t rows,
                                    struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0], *h = &in->in[1];
    const struct clcnn_shape all = {.rank = 2, .dim = {rows, gates * h->dim[1]}, .dtype = x->dtype};
    const struct clcnn_shape weights = {.rank = 2, .dim = {gates * h->dim[1], h->dim[1]}, .dtype = x->dtype};

    if (!shape_equal(x, &all))
        return shape_fail(in, err, "x has shape %s, expected %s: %d gates of the state %s", SHAPE(x),
                          SHAPE(&all), gates, SHAPE(h));
    if (!shape_equal(&in->in[w], &weights))
        return shape_fail(in, err, "weights have shape %s, expected %s", SHAPE(&in->in[w]), SHAPE(&weights));
    in->n_out = 1;
    in->out[0] = *h;
    in->out[0].dim[0] = rows;
    return b >= 0 ? rule_vector(in, b, "bias", gates * h->dim[1], err) : CLCNN_OK;
}

static enum clcnn_status check_state(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *h = &in->in[1];
    return h->rank == 2 ? CLCNN_OK
                        : shape_fail(in, err, "the state has shape %s, expected [rows, units]", SHAPE(h));
}

static enum clcnn_status check_cell(struct infer *in, int gates, int w, int b, struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(check_state(in, err));
    TRY(check_rows(in, gates, w, b, in->in[1].dim[0], err));
done:
    return st;
}

/* Rows of x are those of the state, once for each step. */
static enum clcnn_status check_sequence(struct infer *in, int gates, int w, int b, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[0];
    enum clcnn_status st;

    TRY(check_state(in, err));
    const int32_t rows = in->in[1].dim[0];
    if (x->rank != 2 || x->dim[0] % rows != 0)
        return shape_fail(in, err, "x has shape %s, expected [steps * %d, %d]: the state has %d rows",
                          SHAPE(x), (int)rows, (int)(gates * in->in[1].dim[1]), (int)rows);
    TRY(check_rows(in, gates, w, b, x->dim[0], err));
done:
    return st;
}

/* The second result of an LSTM: c, which comes in as input 2. */
static enum clcnn_status add_c(struct infer *in, struct clcnn_err *err)
{
    if (!shape_equal(&in->in[2], &in->in[1]))
        return shape_fail(in, err, "the cell has shape %s, expected that of the state, %s", SHAPE(&in->in[2]),
                          SHAPE(&in->in[1]));
    in->n_out = 2;
    in->out[1] = in->in[1];
    return CLCNN_OK;
}

static enum clcnn_status infer_lstm_cell(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(check_cell(in, 4, 3, -1, err));
    TRY(add_c(in, err));
done:
    return st;
}

static enum clcnn_status infer_lstm(struct infer *in, struct clcnn_err *err)
{
    enum clcnn_status st;

    TRY(check_sequence(in, 4, 3, -1, err));
    TRY(add_c(in, err));
done:
    return st;
}

static enum clcnn_status infer_gru_cell(struct infer *in, struct clcnn_err *err)
{
    return check_cell(in, 3, 2, 3, err);
}

static enum clcnn_status infer_gru(struct infer *in, struct clcnn_err *err)
{
    return check_sequence(in, 3, 2, 3, err);
}

/* x has as many values for each unit as there are products of a row of weights. */
static double macs(const struct infer *in)
{
    return (double)shape_count(&in->in[0]) * in->in[1].dim[1];
}

static const struct clcnn_attr_info sequence_table[] = {
    ATTR(BOOL, sequence_attrs, reverse, 0,
         "take the last step first; rows of the result stay beside those of x"),
};

const struct op_def op_lstm_cell = {
    .name = "lstm_cell",
    .doc =
        "a step of an LSTM: its next h and c, of what the input adds to the gates i, o, f and the new cell, "
        "x[N,4H], of h and c, [N,H], and of the recurrent weights r[4H,H]",
    .inputs = "x h c r",
    .infer = infer_lstm_cell,
    .macs = macs,
};

const struct op_def op_gru_cell = {
    .name = "gru_cell",
    .doc =
        "a step of a GRU: its next h, of what the input adds to the gates z, r and the new state, x[N,3H], "
        "of h[N,H], and of the recurrent weights r[3H,H] and their bias b[3H], applied before r",
    .inputs = "x h r b",
    .infer = infer_gru_cell,
    .macs = macs,
};

const struct op_def op_lstm = {
    .name = "lstm",
    .doc =
        "the steps of an LSTM: h after each of T steps, y[T*N,H], and the last c, of what the inputs add to "
        "the gates i, "
        "o, f and the new cell, x[T*N,4H], of the first h and c, [N,H], and of the recurrent weights r[4H,H]",
    .inputs = "x h c r",
    ATTRS(sequence_table, sequence_attrs),
    .infer = infer_lstm,
    .macs = macs,
};

const struct op_def op_gru = {
    .name = "gru",
    .doc = "the steps of a GRU: h after each of T steps, y[T*N,H], of what the inputs add to the gates z, r "
           "and the new "
           "state, x[T*N,3H], of the first h, [N,H], and of the recurrent weights r[3H,H] and their bias "
           "b[3H], applied "
           "before r",
    .inputs = "x h r b",
    ATTRS(sequence_table, sequence_attrs),
    .infer = infer_gru,
    .macs = macs,
};
