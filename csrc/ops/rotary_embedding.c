/* rotary_embedding.c: rotary position embedding, which turns pairs of columns by an angle for each row (J. Su et al., RoFormer, 2021). */
#include "ops/rules.h"

enum { X, COS, SIN };

/* Whether s is how the shape of x ends, its last two dimensions at least. */
static bool ends(const struct clcnn_shape *x, const struct clcnn_shape *s)
{
    if (s->rank < 2 || s->rank > x->rank)
        return false;
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] != x->dim[x->rank - s->rank + d])
            return false;
    return true;
}

static enum clcnn_status infer_rotary_embedding(struct infer *in, struct clcnn_err *err)
{
    const struct clcnn_shape *x = &in->in[X], *cos = &in->in[COS], *sin = &in->in[SIN];

    if (x->rank < 2 || x->dim[x->rank - 1] % 2 != 0)
        return shape_fail(in, err, "input %s must be [..., rows, columns], with an even number of columns",
                          SHAPE(x));
    if (!ends(x, cos))
        return shape_fail(in, err, "cos %s must be how input %s ends, [..., rows, columns]", SHAPE(cos),
                          SHAPE(x));
    if (!shape_equal(cos, sin))
        return shape_fail(in, err, "sin %s must have the shape of cos, %s", SHAPE(sin), SHAPE(cos));
    in->n_out = 1;
    in->out[0] = *x;
    return CLCNN_OK;
}

static const struct clcnn_attr_info table[] = {
    ATTR(BOOL, rotary_attrs, interleaved, 0,
         "a pair is columns 2j and 2j + 1; without it columns j and j + columns / 2"),
};

const struct op_def op_rotary_embedding = {
    .name = "rotary_embedding",
    .doc = "rotary position embedding: x * cos + turned(x) * sin, where turned(x) has -b in the place of a "
           "and a in the place of b for each pair a, b of columns; cos and sin have a number for each "
           "column",
    .inputs = "x cos sin",
    ATTRS(table, rotary_attrs),
    .infer = infer_rotary_embedding,
};
