/* topk_sorted: lines sorted by work-items; see kernels/norm_reduce/topk_sorted.cl. */
#include "algos/norm_reduce/topk.h"

enum { GROUPS_EACH = 4 }; /* of a core */

static struct topk_args args_of(const struct problem *p)
{
    struct topk_args a = topk_args_of(p);
    const int64_t groups = (int64_t)(GROUPS_EACH * device_units(p->device));
    a.groups = (i32)(a.all < groups ? a.all : groups);
    return a;
}

static int64_t order_count(const struct topk_args *a)
{
    return (int64_t)a->groups * 2 * a->lines.length;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct topk_attrs *attrs = p->attrs;
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "keys that are sorted are made of floats");
    PREFER(why, attrs->k > TOPK_FEW, "few results are kept in order in one pass");
    return true;
}

static size_t workspace(const struct problem *p)
{
    const struct topk_args a = args_of(p);
    return sizeof(uint64_t) * (size_t)order_count(&a);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct topk_args a = args_of(p);
    const int order = emit_workspace_of(e, CLCNN_INT64, order_count(&a));
    struct step *s = emit_step(e, "topk_sorted", "main", (size_t)a.groups, 1);
    topk_operands(s, p);
    step_write(s, order);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_topk_sorted = {
    .name = "sorted",
    .doc = "lines of floats sorted, in a time that the number of results hardly changes",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .workspace = workspace,
    .emit = emit,
};
