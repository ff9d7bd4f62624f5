/* relays.c: outputs in tensors whose values tensors of other devices get too. Each is asked for right behind the last step that writes it,
 * so that it is under way while later steps compute; in runs with a deadline behind the last step of all. */
#include "plan/plan.h"

#include <stdlib.h>

static bool writes(const struct blueprint *bp, const struct step *s, int storage)
{
    for (int i = 0; i < s->n_buffers; i++)
        if (s->buffer[i].view >= 0 && s->buffer[i].access & ACCESS_WRITE &&
            bp->views[s->buffer[i].view].storage == storage)
            return true;
    return false;
}

/* What is in no storage of the plan is taken last. */
void blueprint_ready(struct blueprint *bp)
{
    const int steps = bp->n_steps - bp->n_commits;
    for (int i = 0; i < bp->n_outputs; i++) {
        const int storage = bp->views[bp->outputs[i].view].storage;
        int ready = steps;
        while (storage >= 0 && ready > 0 && !writes(bp, bp->steps[ready - 1], storage))
            ready--;
        bp->outputs[i].info.ready = ready;
    }
}

enum clcnn_status relays_begin(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    struct relay_result *results = NULL;
    int count = 0;
    for (int i = 0; i < bp->n_outputs; i++)
        count += plan->io_copy[i].relay_count > 0;
    if (!count)
        return CLCNN_OK;
    if (!plan->relay)
        plan->relay = clcnn_calloc((size_t)bp->n_outputs, sizeof *plan->relay);
    results = clcnn_calloc((size_t)count, sizeof *results);
    if (!plan->relay || !results) {
        st = clcnn_fail_mem(err, (size_t)count * sizeof *results);
        goto done;
    }
    count = 0;
    for (int i = 0; i < bp->n_outputs; i++) {
        const struct clcnn_io *io = &plan->io_copy[i];
        plan->relay[i].job = io->relay_count ? count : -1;
        if (io->relay_count && !io->buffer)
            TRY(clcnn_fail(err, CLCNN_E_VALUE, "output '%s': only a tensor is relayed",
                           bp->outputs[i].info.name));
        if (io->relay_count)
            results[count++] =
                (struct relay_result){shape_bytes(&bp->outputs[i].info.shape), io->relay, io->relay_count};
    }
    plan->relays = true;
    TRY(queue_relay_begin(plan->queue, results, count, err));
done:
    free(results);
    return st;
}

bool relays_have(const struct clcnn_plan *plan, int output)
{
    return plan->relays && plan->relay[output].job >= 0;
}

/* The values go into the tensor, which lies densely and stays, and from there to the others. */
enum clcnn_status relays_fetch(struct clcnn_plan *plan, int output, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct clcnn_io *to = &plan->io_copy[output];
    struct relay_of_output *r = &plan->relay[output];
    if (r->begun)
        return CLCNN_OK;
    r->begun = true;
    TRY(plan_fetch(plan, plan->queue, output, to, err));
    TRY(queue_relay(plan->queue, r->job, to->buffer->memory.mem, to->offset, err));
done:
    return st;
}

static enum clcnn_status passed(void *plan_of_run, int next, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_plan *plan = plan_of_run;
    for (int i = 0; i < plan->bp->n_outputs; i++)
        if (relays_have(plan, i) && plan->bp->outputs[i].info.ready <= next)
            TRY(relays_fetch(plan, i, err));
done:
    return st;
}

void relays_start(struct clcnn_plan *plan)
{
    if (!plan->relays)
        return;
    for (int i = 0; i < plan->bp->n_outputs; i++)
        plan->relay[i].begun = false;
    queue_tell(plan->queue, passed, plan);
}

void relays_end(struct clcnn_plan *plan)
{
    if (plan->relays)
        queue_relay_end(plan->queue);
    plan->relays = false;
}
