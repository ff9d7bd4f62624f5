/* where_ref: a choice between two broadcast arguments by a third; see kernels/elementwise/where_ref.cl. */
#include "algos/common/rows.h"

#include <string.h>

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand *y = &p->out[0];
    struct strided_args a = {.rank = y->shape.rank};
    memcpy(a.size, y->shape.dim, sizeof a.size);
    for (int i = 0; i < 3; i++)
        operand_broadcast(&p->in[i], &y->shape, a.stride[i].of);
    operand_strides(y, a.stride[3].of);
    struct step *s = strided_step(e, p, "where_ref", &a, 4);
    step_define_type(s, "T", y->shape.dtype);
    for (int i = 0; i < 3; i++)
        step_read(s, p->in[i].view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_where_ref = {
    .name = "ref",
    .doc = "element by element, dimensions merged where the strides allow",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
