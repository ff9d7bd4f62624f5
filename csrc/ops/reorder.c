/* reorder.c: the same values in another layout; inserted by the planner. */
#include "ops/rules.h"

static enum clcnn_status infer_reorder(struct infer *in, struct clcnn_err *err)
{
    (void)err;
    in->n_out = 1;
    in->out[0] = in->in[0];
    return CLCNN_OK;
}

const struct op_def op_reorder = {
    .name = "reorder",
    .doc = "y = x with channels in blocks, or back in rows; inserted by the planner",
    .inputs = "x",
    .infer = infer_reorder,
    .by_item = true,
    .internal = true,
};
