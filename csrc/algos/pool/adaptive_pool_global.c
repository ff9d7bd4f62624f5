/* adaptive_pool_global: pooling to a single value a channel; see kernels/pool/adaptive_pool_global.cl. */
#include "algos/pool/pool.h"

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, shape_count_from(&p->out[0].shape, 2) == 1, "output_size must be 1 in every dimension");
    return true;
}

/* lp_pool: one window, of all pixels. */
static bool norm_applicable(const struct problem *p, struct why *why)
{
    const struct lp_pool_attrs *attrs = p->attrs;
    const struct pool_args a = pool_args_of(p, &attrs->pool);
    bool whole = true;
    for (int d = 0; d < 3; d++)
        whole = whole && a.ker[d] == a.in[d] && a.out[d] == 1 && a.pad[d] == 0 && a.dil[d] == 1;
    REQUIRE(why, attrs->p == 2, "p must be 2");
    REQUIRE(why, whole, "one window must hold the map, without padding");
    return true;
}

enum reduced { MEAN, MAXIMUM, NORM };

static void emit_pool(const struct problem *p, struct emit *e, enum reduced what)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct global_pool_args a = {
        .rows = (int64_t)x->shape.dim[0] * x->shape.dim[1],
        .length = shape_count_from(&x->shape, 2),
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
    };
    a.divisor = what == MEAN ? (float)a.length : 1.0f;
    struct step *s = lanes_step(e, p, "adaptive_pool_global", "main", a.rows, a.length);
    step_define_id(s, "RED", what == MAXIMUM ? "red_max" : "red_sum");
    step_define(s, "NORM", what == NORM);
    step_read_map(s, x);
    step_write_map(s, y);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&x->shape));
}

static void emit_max(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, MAXIMUM);
}

static void emit_avg(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, MEAN);
}

static void emit_norm(const struct problem *p, struct emit *e)
{
    emit_pool(p, e, NORM);
}

const struct algo_def algo_adaptive_avg_pool_global = {
    .name = "global",
    .doc = "one value a channel, reduced by several work-items",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_SRC | FP16_DST,
    .applicable = applicable,
    .emit = emit_avg,
};

const struct algo_def algo_adaptive_max_pool_global = {
    .name = "global",
    .doc = "one value a channel, reduced by several work-items",
    .error = ERROR_EXACT,
    .deterministic = true,
    .fp16 = FP16_SRC | FP16_DST,
    .applicable = applicable,
    .emit = emit_max,
};

const struct algo_def algo_lp_pool_global = {
    .name = "global",
    .doc = "one window a channel, reduced by several work-items",
    .error = ERROR_STRICT,
    .deterministic = true,
    .fp16 = FP16_SRC | FP16_DST,
    .applicable = norm_applicable,
    .emit = emit_norm,
};
