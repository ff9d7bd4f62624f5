/* topk_places: each element finds its place; see kernels/norm_reduce/topk_places.cl. */
#include "algos/norm_reduce/topk.h"

/* Comparisons at once of a compute unit, over those of work-items that have a line each; work-items of an element where
 * there are few elements. */
enum { PARALLEL = 1024, LANES = 32 };

/* Elements whose comparisons are under way at once. */
static int64_t at_once(const struct problem *p)
{
    return (int64_t)(PARALLEL * device_units(p->device));
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct topk_args a = topk_args_of(p);
    PREFER(why, a.all * a.lines.length <= at_once(p) * a.lines.count,
           "many long lines keep a GPU busy with a work-item each");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct topk_args a = topk_args_of(p);
    const size_t wg = any_group_size(p);
    const int64_t items = a.all * a.lines.length;
    const size_t lanes = items < at_once(p) ? LANES : 1;
    struct step *s = emit_step(e, "topk_places", "main", ceil_div((size_t)items, wg / lanes), wg);
    step_define(s, "LANES", (int)lanes);
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
