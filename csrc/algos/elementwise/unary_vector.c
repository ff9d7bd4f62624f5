/* unary_vector: element-wise functions of one argument on vectors; see kernels/elementwise/unary_vector.cl. */
#include "algos/elementwise/vector_rows.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct eltwise_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int64_t items = y->shape.rank < 2 ? 1 : y->shape.dim[0], item = operand_item(y);
    struct unary_vector_args a = {
        .x_n = x->batch_stride, .y_n = y->batch_stride, .p0 = attrs->p0, .p1 = attrs->p1};
    const bool dense = (x->batch_stride == item && y->batch_stride == item) || items == 1;
    int64_t count = items;
    vector_channels(p, &a.rows);
    if (a.rows.lanes == p->block) { /* nothing to leave out: an item is one row, or everything is */
        a.rows.blocks = 1;
        a.inner = dense ? items * item : item;
        count = dense ? 1 : items;
    } else {
        a.inner = item / a.rows.blocks;
        count = items * a.rows.blocks;
    }
    const size_t groups = vector_groups(p, &a.rows, count, a.inner);
    char identifier[40];
    eltwise_identifier(identifier, p->op, p->attrs, CLCNN_FLOAT32);
    struct step *s = vector_step(e, p, "unary_vector", groups);
    step_define_id(s, "OP", identifier);
    step_read_like(s, p, 0);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_unary_vector = {
    .name = "vector",
    .doc = "element by element on vectors, row-major or on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .stores_in_place = true,
    .src = LAYOUT_FOLLOWS,
    .dst = LAYOUT_FOLLOWS,
    .applicable = vector_applicable,
    .emit = emit,
};
