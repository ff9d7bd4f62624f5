/* lp_pool_blocked: norms of windows over channel blocks; see kernels/pool/lp_pool_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/pool/pool.h"

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, blocked_map(p), NOT_A_MAP);
    REQUIRE(why, ((const struct lp_pool_attrs *)p->attrs)->p == 2, "p must be 2");
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct lp_pool_attrs *attrs = p->attrs;
    struct pool_args a = pool_args_of(p, &attrs->pool);
    a.rows = (int64_t)p->in[0].shape.dim[0] * blocked_count(p, a.c) * a.out[1];
    struct step *s = emit_step(e, "lp_pool_blocked", "main", (size_t)a.rows, 1);
    step_define(s, "V", p->block);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape) * a.ker[1] * a.ker[2]);
}

const struct algo_def algo_lp_pool_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = applicable,
    .emit = emit,
};
