/* binary_ref: element-wise functions of two broadcast arguments, and prelu; see kernels/elementwise/binary_ref.cl. */
#include "algos/common/rows.h"

#include <string.h>

static void emit_with(const struct problem *p, struct emit *e, struct strided_args *a, const char *identifier)
{
    const struct operand *y = &p->out[0];
    a->rank = y->shape.rank;
    memcpy(a->size, y->shape.dim, sizeof a->size);
    operand_strides(y, a->stride[2].of);
    struct step *s = strided_step(e, p, "binary_ref", a, 3);
    step_define_id(s, "OP", identifier);
    step_define_type(s, "T", p->in[0].shape.dtype);
    if (y->shape.dtype != p->in[0].shape.dtype)
        step_define_type(s, "R", y->shape.dtype);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, y->view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}

static void emit_binary(const struct problem *p, struct emit *e)
{
    struct strided_args a = {0};
    char identifier[40];
    operand_broadcast(&p->in[0], &p->out[0].shape, a.stride[0].of);
    operand_broadcast(&p->in[1], &p->out[0].shape, a.stride[1].of);
    eltwise_identifier(identifier, p->op, p->attrs, p->in[0].shape.dtype);
    emit_with(p, e, &a, identifier);
}

/* A slope of rank 1 belongs to dimension 1 of x. */
static void emit_prelu(const struct problem *p, struct emit *e)
{
    const struct operand *x = &p->in[0], *slope = &p->in[1];
    struct strided_args a = {0};
    operand_strides(x, a.stride[0].of);
    if (slope->shape.rank != 1 || x->shape.rank < 2)
        operand_broadcast(slope, &x->shape, a.stride[1].of);
    else
        a.stride[1].of[1] = slope->shape.dim[0] > 1;
    emit_with(p, e, &a, "bin_prelu");
}

const struct algo_def algo_binary_ref = {
    .name = "ref",
    .doc = "element by element, dimensions merged where the strides allow",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_binary,
};

const struct algo_def algo_prelu_ref = {
    .name = "ref",
    .doc = "element by element, dimensions merged where the strides allow",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit_prelu,
};
