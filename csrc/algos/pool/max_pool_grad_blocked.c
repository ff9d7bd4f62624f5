/* max_pool_grad_blocked: the gradient of maxima on channel blocks; see kernels/pool/max_pool_grad_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/pool/pool.h"

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block == 0 || blocked_map(p), NOT_A_MAP);
    return pool_blocked_applicable(p, why);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct problem pool = max_pool_of(p);
    struct max_pool_grad_blocked_args a = {.pool = pool_blocked_sizes(&pool), .dx_n = p->out[0].batch_stride};
    pool_blocked_windows(&a.pool, p->attrs, p->in[0].shape.rank - 2);
    const size_t planes = (size_t)p->in[0].shape.dim[0] * (size_t)blocked_count(p, a.pool.c);
    const size_t rows = (size_t)a.pool.in[0], extent = (size_t)(a.pool.ker[0] * a.pool.dil[0]);
    a.pool.rows = blocked_run(p, planes, rows, 4 * extent); /* few windows are read by two groups */
    struct step *s =
        emit_step(e, "max_pool_grad_blocked", "main", planes * ceil_div(rows, (size_t)a.pool.rows), 1);
    step_define(s, "V", p->block);
    max_pool_grad_operands(s, p);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[1].shape) * a.pool.ker[0] * a.pool.ker[1]);
}

const struct algo_def algo_max_pool_grad_blocked = {
    .name = "blocked",
    .doc = "each window adds to its first maximum, vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .second = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .emit = emit,
};
