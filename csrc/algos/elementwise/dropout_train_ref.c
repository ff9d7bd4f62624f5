/* dropout_train_ref: elements dropped at random; see kernels/elementwise/dropout_train_ref.cl. */
#include "algos/elementwise/dropout_train.h"

struct dropout_args dropout_args_of(const struct problem *p)
{
    const struct dropout_attrs *attrs = p->attrs;
    struct items x = operand_items(&p->in[0]), y = operand_items(&p->out[0]);
    if (x.count == 1 && y.count > 1)
        x = (struct items){y.count, y.size, y.size};
    else if (y.count == 1)
        y = (struct items){x.count, x.size, x.size};
    return (struct dropout_args){
        .rows = x.count,
        .inner = x.size,
        .x_n = x.stride,
        .y_n = y.stride,
        .least = (int64_t)((double)attrs->p * (double)((int64_t)1 << 32)),
        .scale = attrs->p < 1.0f ? (float)(1.0 / (1.0 - (double)attrs->p)) : 0.0f,
        .layer = attrs->layer,
    };
}

void dropout_finish(const struct problem *p, struct step *s, const struct dropout_args *a)
{
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct dropout_args a = dropout_args_of(p);
    dropout_finish(p, rows_step(e, p, "dropout_train_ref", "main", a.rows, a.inner, &a.pieces), &a);
}

const struct algo_def algo_dropout_train_ref = {
    .name = "ref",
    .doc = "element by element",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
