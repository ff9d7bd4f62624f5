/* attention_tiled: attention through tiles in local memory; see kernels/attention/attention_tiled.cl. */
#include "algos/attention/attention.h"

enum { ACROSS = 16, MOST_RQ = 4, BLOCK = 32, GROUPS_A_UNIT = 2 };

static bool applicable(const struct problem *p, struct why *why)
{
    const struct attention_args a = attention_args_of(p);
    REQUIRE(why, a.e <= ATTENTION_MOST_COLUMNS, "rows of v have more than 256 elements");
    return true;
}

static size_t groups_of(const struct attention_args *a, size_t rows)
{
    return (size_t)a->n * (size_t)a->heads * ceil_div((size_t)a->l, rows);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct attention_args a = attention_args_of(p);
    const size_t wg = any_group_size(p), down = wg / ACROSS, units = p->device->compute_units;
    const int parts = a.e > 0 ? (int)ceil_div((size_t)a.e, BLOCK) : 1;
    int rq = MOST_RQ;
    /* tall tiles read k and v less often, but there must be some for each unit, and rows for them */
    while (rq > 1 &&
           (groups_of(&a, down * (size_t)rq) < GROUPS_A_UNIT * units || (size_t)a.l * 2 <= down * (size_t)rq))
        rq /= 2;
    struct step *s = emit_step(e, "attention_tiled", "main", groups_of(&a, down * (size_t)rq), wg);
    step_define(s, "RQ", rq);
    step_define(s, "PARTS", parts);
    attention_finish(s, p, &a);
}

const struct algo_def algo_scaled_dot_product_attention_tiled = {
    .name = "tiled",
    .doc = "tiles of scores in local memory",
    .devices = DEVICES_GPU,
    .error = ERROR_HIGHEST,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
