/* batch_norm_train_ref: batch norm by its own statistics; see kernels/norm_reduce/batch_norm_train_ref.cl. */
#include "algos/common/rows.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct norm_train_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0];
    const struct batch_norm_train_args a = {
        .x_n = x->batch_stride,
        .y_n = p->out[0].batch_stride,
        .add_n = p->add.present ? p->add.batch_stride : 0,
        .length = shape_count_from(&x->shape, 2),
        .n = x->shape.dim[0],
        .c = x->shape.dim[1],
        .eps = attrs->eps,
        .low = attrs->low,
        .high = attrs->high,
        .p0 = p->p0,
        .p1 = p->p1,
    };
    struct step *s = lanes_step(e, p, "batch_norm_train_ref", "main", a.c, a.n * a.length);
    for (int i = 0; i < 3; i++)
        step_read(s, p->in[i].view);
    norm_epilogue(s, p);
    for (int i = 0; i < 3; i++)
        step_write(s, p->out[i].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 3 * (double)shape_count(&x->shape));
}

const struct algo_def algo_batch_norm_train_ref = {
    .name = "ref",
    .doc = "mean, variance, result: a channel at a time",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
