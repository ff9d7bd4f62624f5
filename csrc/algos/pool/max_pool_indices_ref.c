/* max_pool_indices_ref: maxima of windows and where they are; see kernels/pool/max_pool_indices_ref.cl. */
#include "algos/pool/pool.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct max_indices_attrs *attrs = p->attrs;
    struct max_indices_args a = {.pool = pool_args_of(p, &attrs->pool), .i_n = p->out[1].batch_stride};
    const struct pool_args *g = &a.pool;
    a.step[0] = attrs->storage_order ? 1 : (int64_t)g->in[1] * g->in[2];
    a.step[1] = attrs->storage_order ? g->in[0] : g->in[2];
    a.step[2] = attrs->storage_order ? (int64_t)g->in[0] * g->in[1] : 1;
    struct step *s = rows_step(e, p, "max_pool_indices_ref", "main", g->rows, g->out[2], &a.pool.pieces);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_write(s, p->out[1].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape) * g->ker[0] * g->ker[1] * g->ker[2]);
}

const struct algo_def algo_max_pool_indices_ref = {
    .name = "ref",
    .doc = "by the definition, output by output",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
