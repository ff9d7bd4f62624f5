/* run.c: runs of a plan, and its end. A run is begin, advance ..., and done; nothing is allocated in between. One that commits walks
 * twice: over the steps up to the outputs, and once those are there and nothing is to be repeated, over the steps that commit. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

static enum clcnn_status check_io(const struct clcnn_plan *plan, const struct io_view *views,
                                  const struct clcnn_io *io, int count, const char *what,
                                  struct clcnn_err *err)
{
    for (int i = 0; i < count; i++) {
        const size_t need = shape_bytes(&views[i].info.shape);
        const struct clcnn_buffer *b = io[i].buffer;
        if (!b && !io[i].host)
            return clcnn_fail(err, CLCNN_E_VALUE, "%s '%s' has no memory", what, views[i].info.name);
        if (b && (b->closed || b->dev != plan->bp->dev))
            return clcnn_fail(err, CLCNN_E_STATE,
                              "%s '%s': the tensor is closed or belongs to another device", what,
                              views[i].info.name);
        if (b && (io[i].offset > b->bytes || b->bytes - io[i].offset < need))
            return clcnn_fail(err, CLCNN_E_SHAPE, "%s '%s' needs %zu bytes, the tensor has %zu", what,
                              views[i].info.name, need, b->bytes);
    }
    return CLCNN_OK;
}

/* Waits for the plan's turn, which leave() ends. A forked child asks for no lock: its holder may not exist there. */
static enum clcnn_status enter(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                               struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(device_enter(plan->bp->dev, err));
    TRY(gate_enter(&plan->gate, patience, "another thread's run of this plan", err));
done:
    return st;
}

static void leave(struct clcnn_plan *plan)
{
    gate_leave(&plan->gate);
}

/* The same for a run: its turn on the state, too. */
static enum clcnn_status enter_run(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = enter(plan, patience, err);
    if (st != CLCNN_OK || !plan->bp->state || atomic_load(&plan->closed))
        return st;
    st = state_enter(plan->bp->state, true, patience, err);
    if (st != CLCNN_OK)
        leave(plan);
    plan->in_state = st == CLCNN_OK;
    return st;
}

static void leave_run(struct clcnn_plan *plan)
{
    if (plan->in_state) {
        plan->in_state = false;
        state_leave(plan->bp->state, plan->queue);
    }
    leave(plan);
}

/* Once it is the plan's turn. */
static enum clcnn_status check_run(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                   const struct clcnn_io *outputs, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    if (atomic_load(&plan->closed))
        return clcnn_fail(err, CLCNN_E_STATE, "the plan is closed");
    TRY(device_enter(plan->bp->dev, err));
    if (queue_stuck(plan->queue))
        return clcnn_fail(err, CLCNN_E_STATE, "the plan is still busy with a run that timed out");
    TRY(check_io(plan, plan->bp->inputs, inputs, plan->bp->n_inputs, "input", err));
    TRY(check_io(plan, plan->bp->outputs, outputs, plan->bp->n_outputs, "output", err));
done:
    return st;
}

static void paint_input(unsigned char *image, const struct place *x, const unsigned char *host)
{
    for (size_t i = 0; i < x->rows; i++)
        memcpy(image + x->offset + i * x->stride, host + i * x->row, x->row);
}

/* The pattern of guard bands: a quiet NaN that no kernel computes, another one in each word. One that a kernel reads beside its
 * operand goes through arithmetic as it is, and must not be what the kernel finds beside its result. */
static uint32_t guard_word(size_t index)
{
    return 0x7fc00000u | (uint32_t)(index * 2654435761u) >> 10;
}

/* Guarded plans: the pattern everywhere, and the inputs that come from the host (NULL: none), in one write of the whole
 * arena. Oclgrind takes all of a buffer for uninitialised but what the last write or fill of it has covered. */
enum clcnn_status plan_paint(struct clcnn_plan *plan, struct queue *q, const struct clcnn_io *inputs,
                             struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    uint32_t *image = malloc(bp->arena_bytes + 1);
    if (!image)
        return clcnn_fail_mem(err, bp->arena_bytes);
    for (size_t i = 0; i < bp->arena_bytes / sizeof *image; i++)
        image[i] = guard_word(i);
    for (int i = 0; inputs && i < bp->n_inputs; i++) {
        const struct place x = plan_place(plan, &bp->inputs[i]);
        if (inputs[i].host)
            paint_input((unsigned char *)image, &x, inputs[i].host);
    }
    TRY(queue_write(q, plan->arena.mem, 0, image, bp->arena_bytes, err));
    TRY(queue_finish(q, err));
done:
    free(image);
    return st;
}

static enum clcnn_status send_all(struct clcnn_plan *plan, struct queue *q, const struct clcnn_io *inputs,
                                  struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    if (bp->guard)
        TRY(plan_paint(plan, q, inputs, err));
    for (int i = 0; i < bp->n_inputs; i++)
        if (!bp->guard || inputs[i].buffer)
            TRY(plan_send(plan, q, i, &inputs[i], err));
done:
    return st;
}

/* Asks for all outputs; they are there when the queue has finished. */
static enum clcnn_status fetch_all(struct clcnn_plan *plan, struct queue *q, const struct clcnn_io *outputs,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < plan->bp->n_outputs; i++)
        TRY(relays_have(plan, i) ? relays_fetch(plan, i, err) : plan_fetch(plan, q, i, &outputs[i], err));
done:
    return st;
}

static enum clcnn_status fetch_last(void *plan_of_run, struct clcnn_err *err)
{
    struct clcnn_plan *plan = plan_of_run;
    plan->fetched = true;
    return fetch_all(plan, plan->queue, plan->io_copy, err);
}

static void end_run(struct clcnn_plan *plan)
{
    relays_end(plan);
    zero_copy_return(plan);
    leave_run(plan);
}

static void begin_steps(struct clcnn_plan *plan)
{
    plan->fetched = plan->committing = false;
    queue_start(plan->queue, plan->launches, plan->bp->n_steps - plan->bp->n_commits);
    queue_then(plan->queue, fetch_last, plan);
    relays_start(plan);
}

static enum clcnn_status begin_commit(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    TRY(plan_set_commit(plan, true, err));
    plan->committing = true;
    queue_start(plan->queue, plan->launches + bp->n_steps - bp->n_commits, bp->n_commits);
    queue_keep_whole(plan->queue);
done:
    return st;
}

enum clcnn_status clcnn_plan_begin(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                   const struct clcnn_io *outputs, bool borrow, bool commit,
                                   const struct clcnn_patience *patience, struct clcnn_err *err)
{
    enum clcnn_status st = enter_run(plan, patience, err);
    bool sent = false;
    if (st != CLCNN_OK)
        return st;
    TRY(check_run(plan, inputs, outputs, err));
    if (commit && !plan->bp->n_commits)
        TRY(clcnn_fail(err, CLCNN_E_VALUE, "the plan's graph assigns no state: there is nothing to commit"));
    plan->commit = commit;
    memcpy(plan->io_copy, outputs, (size_t)plan->bp->n_outputs * sizeof *outputs);
    memcpy(plan->io_copy + plan->bp->n_outputs, inputs, (size_t)plan->bp->n_inputs * sizeof *inputs);
    plan->started_ms = clcnn_clock_ms();
    TRY(zero_copy_set(plan, borrow ? inputs : NULL, borrow ? outputs : NULL, err));
    sent = true;
    TRY(relays_begin(plan, err));
    TRY(send_all(plan, plan->queue, inputs, err));
    begin_steps(plan);
    return CLCNN_OK;
done:
    if (sent)
        queue_cancel(plan->queue);
    end_run(plan);
    return st;
}

enum clcnn_status plan_leave_chains(bool *left, struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    bool made = false;
    TRY(chains_failed(left, plan->chains, plan->queue, clcnn_clock_ms() - plan->started_ms, err));
    if (!*left)
        return CLCNN_OK;
    TRY(plan_bind_launches(plan, &made, err));
    for (int i = 0; i < plan->bp->n_steps; i++)
        plan->launches[i].chain = NULL;
    chains_free(plan->chains, plan->bp->dev);
    plan->chains = NULL;
    atomic_store(&plan->called, false);
    queue_call_chains(plan->queue, false);
    TRY(zero_copy_rebind(plan, err));
    atomic_store(&plan->launch_count, plan->bp->n_steps);
    atomic_store(&plan->left_chains, true);
done:
    return st;
}

/* Whether the run has to begin anew, as launches; then it has. */
static enum clcnn_status repeat(bool *again, struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    TRY(plan_leave_chains(again, plan, err));
    if (!*again)
        return CLCNN_OK;
    TRY(send_all(plan, plan->queue, plan->io_copy + plan->bp->n_outputs, err));
    begin_steps(plan);
done:
    return st;
}

enum clcnn_status clcnn_plan_advance(struct clcnn_plan *plan, double slice_ms,
                                     const struct clcnn_patience *patience, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    if (device_forked(plan->bp->dev)) /* between slices: the run goes on in the parent */
        return device_enter(plan->bp->dev, err);
    st = queue_advance(plan->queue, slice_ms, patience, err);
    if (st == CLCNN_PENDING)
        return st;
    bool again = false;
    if (st == CLCNN_OK && !plan->committing)
        TRY(repeat(&again, plan, err));
    if (again)
        return CLCNN_PENDING;
    if (st == CLCNN_OK && !plan->fetched) {
        TRY(fetch_last(plan, err));
        TRY(queue_finish(plan->queue, err));
        TRY(queue_relay_finish(plan->queue, err));
    }
    if (st == CLCNN_OK && plan->commit && !plan->committing) {
        TRY(begin_commit(plan, err));
        return CLCNN_PENDING;
    }
done:
    if (st != CLCNN_OK &&
        st != CLCNN_E_TIMEOUT) /* outputs may be on their way to memory that the caller frees */
        queue_cancel(plan->queue);
    end_run(plan);
    return st;
}

void clcnn_plan_cancel(struct clcnn_plan *plan)
{
    if (device_forked(plan->bp->dev))
        return;
    queue_cancel(plan->queue);
    end_run(plan);
}

enum clcnn_status clcnn_plan_profile(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                     const struct clcnn_io *outputs, uint64_t *start_ns, uint64_t *end_ns,
                                     const struct clcnn_patience *patience, struct clcnn_err *err)
{
    enum clcnn_status st = enter_run(plan, patience, err);
    struct queue *q = NULL;
    bool fresh = false;
    if (st != CLCNN_OK)
        return st;
    TRY(check_run(plan, inputs, outputs, err));
    TRY(zero_copy_set(plan, NULL, NULL, err));
    TRY(plan_queue(&q, plan, true, err));
    TRY(plan_bind_launches(plan, &fresh, err));
    TRY(zero_copy_launch_all(plan, err));
    TRY(plan_set_commit(plan, false, err));
    TRY(send_all(plan, q, inputs, err));
    if (fresh) { /* some drivers generate code at the first launch */
        TRY(queue_profile(q, plan->launches, plan->bp->n_steps, start_ns, end_ns, err));
        blueprint_save_programs(plan->bp);
        TRY(send_all(plan, q, inputs, err));
    }
    TRY(queue_profile(q, plan->launches, plan->bp->n_steps, start_ns, end_ns, err));
    TRY(fetch_all(plan, q, outputs, err));
    TRY(queue_finish(q, err));
done:
    queue_free(q);
    zero_copy_return(plan);
    leave_run(plan);
    return st;
}

/* The blueprint stays until free(), so that names and figures can be asked of a closed plan. */
static void drop_memory(struct clcnn_plan *plan)
{
    const bool stuck = plan->queue && queue_stuck(plan->queue);
    queue_free(plan->queue);
    plan->queue = NULL;
    if (stuck) /* the device may still use the rest, weights too: leaking it is the only safe choice */
        return;
    /* last first: PoCL looks for a kernel among those of its program from the newest on */
    for (int i = plan->bp->n_steps - 1; plan->launches && i >= 0; i--)
        launch_release(&plan->launches[i], plan->bp->dev);
    chains_free(plan->chains, plan->bp->dev);
    plan->chains = NULL;
    free(plan->launches);
    plan->launches = NULL;
    zero_copy_free(plan);
    memory_release(&plan->arena, plan->bp->dev);
    if (plan->counted)
        blueprint_close(plan->bp);
    plan->counted = false;
}

enum clcnn_status clcnn_plan_close(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                                   struct clcnn_err *err)
{
    if (device_forked(plan->bp->dev)) { /* all that it has is the parent's */
        atomic_store(&plan->closed, true);
        return CLCNN_OK;
    }
    const enum clcnn_status st = gate_enter(&plan->gate, patience, "another thread's run of this plan", err);
    if (st != CLCNN_OK)
        return st;
    if (!atomic_load(&plan->closed))
        drop_memory(plan);
    atomic_store(&plan->closed, true);
    leave(plan);
    return CLCNN_OK;
}

bool clcnn_plan_left_busy(const struct clcnn_plan *plan)
{
    return plan->counted;
}

void clcnn_plan_free(struct clcnn_plan *plan)
{
    /* a thread that the child has not may have been at work on it */
    if (!plan || device_forked(plan->bp->dev))
        return;
    clcnn_plan_close(plan, NULL, NULL);
    if (!plan->counted) /* a stuck plan keeps its share of the weights for ever */
        blueprint_release(plan->bp);
    gate_destroy(&plan->gate);
    free(plan->io_copy);
    free(plan->relay);
    free(plan);
}

/* Every byte outside the storages' items must still be the pattern's. */
static enum clcnn_status check_storage(const struct storage *r, const unsigned char *arena, size_t guard,
                                       struct clcnn_err *err)
{
    const size_t start = r->offset - guard, end = start + r->bytes;
    for (size_t at = start; at < end; at++) {
        const size_t rel = (at - start - guard) / r->elem; /* far above all items for the band in front */
        const bool inside = at - start >= guard && rel / (size_t)r->stride < (size_t)r->items &&
                            rel % (size_t)r->stride < (size_t)r->item_elems;
        const uint32_t want = guard_word(at / sizeof want);
        if (!inside && arena[at] != ((const unsigned char *)&want)[at % sizeof want])
            return clcnn_fail(err, CLCNN_E_INTERNAL,
                              "%s '%s': element %lld lies outside its memory and was overwritten",
                              r->scratch ? "workspace of" : "output of", r->name,
                              ((long long)(at - start) - (long long)guard) / (long long)r->elem);
    }
    return CLCNN_OK;
}

enum clcnn_status clcnn_plan_check_guards(struct clcnn_plan *plan, const struct clcnn_patience *patience,
                                          struct clcnn_err *err)
{
    enum clcnn_status st = enter(plan, patience, err);
    const struct blueprint *bp = plan->bp;
    unsigned char *arena = NULL;
    if (st != CLCNN_OK)
        return st;
    if (!bp->guard || atomic_load(&plan->closed)) {
        st = clcnn_fail(err, CLCNN_E_STATE, "the plan is closed or was not compiled with guard");
        goto done;
    }
    TRY(device_enter(bp->dev, err));
    arena = malloc(bp->arena_bytes + 1);
    if (!arena) {
        st = clcnn_fail_mem(err, bp->arena_bytes);
        goto done;
    }
    if (bp->arena_bytes)
        TRY(queue_read(plan->queue, plan->arena.mem, 0, arena, bp->arena_bytes, err));
    TRY(queue_finish(plan->queue, err));
    for (int i = 0; i < bp->n_storages; i++)
        if (bp->storages[i].bytes)
            TRY(check_storage(&bp->storages[i], arena, storage_guard(bp, &bp->storages[i]), err));
done:
    leave(plan);
    free(arena);
    return st;
}
