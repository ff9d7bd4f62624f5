/* unary_ref: element-wise functions of one argument; see kernels/elementwise/unary_ref.cl. */
#include "algos/common/rows.h"
#include "elementwise/elementwise_args.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct eltwise_attrs *attrs = p->attrs;
    struct items x = operand_items(&p->in[0]), y = operand_items(&p->out[0]);
    if (x.count == 1 && y.count > 1) { /* the other one is dense: cut it alike */
        x = (struct items){y.count, y.size, y.size};
    } else if (y.count == 1) {
        y = (struct items){x.count, x.size, x.size};
    }
    struct unary_args a = {
        .rows = x.count,
        .inner = x.size,
        .x_n = x.stride,
        .y_n = y.stride,
        .p0 = attrs->p0,
        .p1 = attrs->p1,
    };
    struct step *s = rows_step(e, p, "unary_ref", "main", a.rows, a.inner, &a.pieces);
    char identifier[40];
    eltwise_identifier(identifier, p->op, p->attrs, p->in[0].shape.dtype);
    step_define_id(s, "OP", identifier);
    step_define_type(s, "T", p->in[0].shape.dtype);
    if (p->out[0].shape.dtype != p->in[0].shape.dtype) {
        step_define_id(s, "R", dtype_opencl(p->out[0].shape.dtype));
        s->alone = true;
    }
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_unary_ref = {
    .name = "ref",
    .doc = "element by element",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
