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

bool max_pool_grad_flat(const struct problem *p, const struct pool_args *a, struct why *why)
{
    REQUIRE(why, p->in[0].shape.rank <= 4, "windows with a depth are left to ref");
    REQUIRE(why, a->dil[1] == 1 && a->dil[2] == 1, "dilated windows are left to ref");
    return true;
}

void max_pool_grad_windows(struct step *s, const struct problem *p, const struct pool_args *a)
{
    step_define(s, "KH", a->ker[1]);
    step_define(s, "KW", a->ker[2]);
    step_define(s, "SH", a->stride[1]);
    step_define(s, "SW", a->stride[2]);
    max_pool_grad_operands(s, p);
    rows_cost(s, p, (double)shape_count(&p->in[1].shape) * a->ker[1] * a->ker[2]);
}

int max_pool_grad_cells(const struct pool_args *a, int d)
{
    return (a->in[d] + a->pad[d] - 1) / a->stride[d] + 1;
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
