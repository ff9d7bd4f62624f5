/* max_pool_grad_ref: the gradient of maxima, gathered; see kernels/pool/max_pool_grad_ref.cl. */
#include "algos/pool/pool.h"

struct problem max_pool_of(const struct problem *grad)
{
    struct problem pool = *grad;
    pool.out = &grad->in[1];
    return pool;
}

void max_pool_grad_operands(struct step *s, const struct problem *p)
{
    step_define(s, "RECTIFIED", ((const struct max_pool_grad_attrs *)p->attrs)->rectified);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct problem pool = max_pool_of(p);
    struct max_pool_grad_args a = {.pool = pool_args_of(&pool, p->attrs), .dx_n = p->out[0].batch_stride};
    struct pool_args *g = &a.pool;
    g->rows = (int64_t)p->in[0].shape.dim[0] * g->c * g->in[0] * g->in[1];
    struct step *s = rows_step(e, p, "max_pool_grad_ref", "main", g->rows, g->in[2], &g->pieces);
    max_pool_grad_operands(s, p);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[1].shape) * g->ker[0] * g->ker[1] * g->ker[2]);
}

const struct algo_def algo_max_pool_grad_ref = {
    .name = "ref",
    .doc = "by the definition: each element of x asks its windows whether it is their first maximum",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
