/* elementwise.c: several element-wise functions, one after the other, in one. Made by a rewrite only, so that no map between them
 * goes through memory. */
#include "ops/rules.h"

static enum clcnn_status infer_elementwise(struct infer *in, struct clcnn_err *err)
{
    struct clcnn_shape y = in->in[0];
    in->n_out = 1;
    for (int k = 1; k < in->n_in; k++) {
        const struct clcnn_shape before = y;
        if (input_present(in, k) && !broadcast_shapes(&before, &in->in[k], &y))
            return shape_fail(in, err, "shapes %s and %s do not broadcast", SHAPE(&before),
                              SHAPE(&in->in[k]));
    }
    in->out[0] = y;
    return CLCNN_OK;
}

const struct op_def op_elementwise = {
    .name = "elementwise",
    .doc = "up to four element-wise functions one after the other, the k-th with an argument of its own or "
           "none; made by "
           "rewrites",
    .inputs = "x a? b? c? d?",
    .attrs_size = sizeof(struct elementwise_attrs),
    .infer = infer_elementwise,
    .by_item = true,
    .internal = true,
};
