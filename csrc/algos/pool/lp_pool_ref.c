/* lp_pool_ref: norms of windows; see kernels/pool/lp_pool_ref.cl. */
#include "algos/pool/pool.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct lp_pool_attrs *attrs = p->attrs;
    struct lp_pool_args a = {.pool = pool_args_of(p, &attrs->pool), .p = attrs->p};
    const struct pool_args *g = &a.pool;
    struct step *s = rows_step(e, p, "lp_pool_ref", "main", g->rows, g->out[2], &a.pool.pieces);
    step_define(s, "P", attrs->p <= 2 ? attrs->p : 0);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape) * g->ker[0] * g->ker[1] * g->ker[2]);
}

const struct algo_def algo_lp_pool_ref = {
    .name = "ref",
    .doc = "by the definition, output by output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
