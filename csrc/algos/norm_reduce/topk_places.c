/* topk_places: each element finds its place; see kernels/norm_reduce/topk_places.cl. */
#include "algos/norm_reduce/topk.h"

/* Comparisons at once of a compute unit, over those of work-items that have a line each. */
enum { PARALLEL = 1024 };

static bool applicable(const struct problem *p, struct why *why)
{
    const struct topk_args a = topk_args_of(p);
    const int64_t at_once = (int64_t)(PARALLEL * device_units(p->device));
    PREFER(why, a.all * a.lines.length <= at_once * a.lines.count,
           "many long lines keep a GPU busy with a work-item each");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct topk_args a = topk_args_of(p);
    const size_t wg = any_group_size(p);
    struct step *s = emit_step(e, "topk_places", "main", ceil_div((size_t)(a.all * a.lines.length), wg), wg);
    step_define_type(s, "T", p->in[0].shape.dtype);
    topk_operands(s, p);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_topk_places = {
    .name = "places",
    .doc = "each element counts those that come before it",
    .devices = DEVICES_GPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
