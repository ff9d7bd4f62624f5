/* open.c: plans come to life on a blueprint: the first one, which is warmed, and clones. */
#include "plan/plan.h"

/* Where all steps are in chains whose code the host can call, it does from now on. */
static enum clcnn_status call_chains(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < plan->bp->n_steps; i++)
        if (!plan->launches[i].chain)
            return CLCNN_OK;
    bool found;
    TRY(chains_find_code(&found, plan->chains, plan->bp->dev, err));
    found = found && plan->bp->n_counters == 0;
    atomic_store(&plan->called, found);
    queue_call_chains(plan->queue, found);
done:
    return st;
}

enum clcnn_status plan_instantiate(struct clcnn_plan **out, struct blueprint *bp, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_plan *plan = clcnn_calloc(1, sizeof *plan);
    if (!plan)
        return clcnn_fail_mem(err, sizeof *plan);
    gate_init(&plan->gate);
    plan->bp = bp;
    blueprint_retain(bp);
    plan->counted = blueprint_open(bp);
    if (!plan->counted) {
        st = clcnn_fail(err, CLCNN_E_STATE, "the plan is closed");
        goto done;
    }
    plan->io_copy = clcnn_calloc((size_t)(bp->n_outputs + bp->n_inputs) + 1, sizeof *plan->io_copy);
    if (!plan->io_copy) {
        st = clcnn_fail_mem(err, sizeof *plan->io_copy);
        goto done;
    }
    TRY(memory_create(&plan->arena, bp->dev, bp->stats.arena_bytes, "arena of the plan", err));
    TRY(plan_queue(&plan->queue, plan, false, err));
    TRY(zero_copy_create(plan, err));
    TRY(plan_bind(plan, err));
    if (bp->rate > 0) /* a clone: the code is there */
        TRY(call_chains(plan, err));
    *out = plan;
    plan = NULL;
done:
    clcnn_plan_free(plan);
    return st;
}

static enum clcnn_status walk_patiently(struct queue *q, const struct clcnn_patience *patience,
                                        struct clcnn_err *err)
{
    enum clcnn_status st;
    while ((st = queue_advance(q, SLICE_MS, NULL, err)) == CLCNN_PENDING) {
        st = patience_look(patience, "the first run", err);
        if (st != CLCNN_OK) {
            queue_cancel(q);
            break;
        }
    }
    return st;
}

/* One real run on whatever the arena holds: drivers that generate code at the first launch, some of it for a range of launch
 * sizes (PoCL), have done so, CLBlast has built its kernels, the queue has learned the device's rate, and binaries are
 * complete when they are saved. */
enum clcnn_status plan_warm(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                            struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = plan->bp;
    if (bp->guard) { /* so that Oclgrind does not take this run's inputs for uninitialised reads */
        st = plan_paint(plan, plan->queue, NULL, err);
        if (st != CLCNN_OK)
            return st;
    }
    bool again;
    patience_tell(patience, "first run", 0, 0);
    plan->started_ms = clcnn_clock_ms();
    do {
        again = false;
        queue_start(plan->queue, plan->launches, bp->n_steps);
        st = walk_patiently(plan->queue, patience, err);
        if (st == CLCNN_OK)
            st = plan_leave_chains(&again, plan, err);
    } while (again && st == CLCNN_OK);
    if (st != CLCNN_OK)
        return st;
    st = call_chains(plan, err);
    if (st != CLCNN_OK)
        return st;
    bp->rate = queue_rate(plan->queue);
    blueprint_save_programs(bp);
    return st;
}

/* The blueprint lives as long as the plan, and opens for nobody once its last plan is closed: there is nothing to wait for. */
enum clcnn_status clcnn_plan_clone(struct clcnn_plan **out, struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(device_enter(plan->bp->dev, err));
    if (atomic_load(&plan->closed))
        return clcnn_fail(err, CLCNN_E_STATE, "the plan is closed");
    if (plan->bp->n_commits > 0)
        return clcnn_fail(err, CLCNN_E_UNSUPPORTED,
                          "a plan that assigns states has no clones, since its runs take turns: compile the "
                          "graph again for another plan");
    if (plan->bp->state && atomic_load(&plan->bp->state->closed))
        return clcnn_fail(err, CLCNN_E_STATE, "the state is closed");
    TRY(plan_instantiate(out, plan->bp, err));
done:
    return st;
}
