/* bind.c: a blueprint gets packed weights (once, shared by clones); a plan gets its arena, kernels and queue, with every kernel
 * argument set. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What setup steps read, one buffer for each operand: kept from one to the next and grown, since fresh memory is what
 * uploading takes most of its time for. The queue is in order, so that a write waits for the kernel before it. */
struct staging {
    struct memory memory[MAX_STEP_BUFFERS];
};

static enum clcnn_status staging_need(struct staging *staging, int at, struct clcnn_device *dev, size_t bytes,
                                      const char *layer, struct clcnn_err *err)
{
    if (staging->memory[at].mem && staging->memory[at].bytes >= bytes)
        return CLCNN_OK;
    memory_release(&staging->memory[at], dev);
    return memory_create(&staging->memory[at], dev, bytes, layer, err);
}

static void staging_release(struct staging *staging, struct clcnn_device *dev)
{
    for (int i = 0; i < MAX_STEP_BUFFERS; i++)
        memory_release(&staging->memory[i], dev);
}

/* Uploads the constants that a setup step reads, and runs it into `dst`. What it reads that is packed itself has been made:
 * it stands before. */
static enum clcnn_status run_setup(struct blueprint *bp, int packed, const struct memory *dst,
                                   struct queue *q, struct binding *bindings, struct staging *staging,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct step *s = blueprint_setup(bp, packed);
    struct launch launch = {0};
    for (int i = 0; i < s->n_buffers; i++) {
        const int view = s->buffer[i].view;
        if (view < 0)
            continue;
        const int source = bp->views[view].packed;
        if (source == packed) {
            bindings[view] = (struct binding){.mem = dst->mem};
            continue;
        }
        const struct packed *p = &bp->packed[source];
        if (p->setup) {
            bindings[view] = (struct binding){.mem = p->weight->memory.mem};
            continue;
        }
        TRY(staging_need(staging, i, bp->dev, p->bytes, p->layer, err));
        TRY(queue_write(q, staging->memory[i].mem, 0, bp->graph->values[p->value].data, p->bytes, err));
        bindings[view] = (struct binding){.mem = staging->memory[i].mem, .offset = bp->views[view].offset};
    }
    TRY(launch_bind(&launch, bp->dev, bp->programs[bp->n_steps + packed], s, bindings, err));
    queue_start(q, &launch, 1);
    do
        st = queue_advance(q, 1e9, NULL, err);
    while (st == CLCNN_PENDING);
done:
    launch_release(&launch, bp->dev);
    return st;
}

static enum clcnn_status fill_weight(struct blueprint *bp, int packed, struct queue *q,
                                     struct binding *bindings, struct staging *staging, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct packed *p = &bp->packed[packed];
    struct weight_key key = {0};
    const struct value *v = &bp->graph->values[p->value];
    key.content = hash128_bytes(v->data, shape_bytes(&v->shape));
    snprintf(key.packing, sizeof key.packing, "%s", p->packing);
    TRY(weight_acquire(&p->weight, &p->fresh, bp->dev, &key, p->bytes, p->layer, err));
    if (p->fresh && p->setup)
        st = run_setup(bp, packed, &p->weight->memory, q, bindings, staging, err);
    else if (p->fresh)
        st = queue_write(q, p->weight->memory.mem, 0, v->data, p->bytes, err);
done:
    return st;
}

/* Host memory from which it pays to give the pages of a constant back as soon as the device has it, rather than with all
 * others: waiting for the queue and the call take some 10 us. */
#define DROP_BYTES ((size_t)64 << 10)

/* For each constant the last of the packed ones that is made from it. */
static int *last_uses(const struct blueprint *bp)
{
    int *last = clcnn_calloc((size_t)bp->graph->n_values + 1, sizeof *last);
    for (int i = 0; last && i < bp->n_packed; i++) {
        const struct packed *p = &bp->packed[i];
        if (!p->used)
            continue;
        last[p->value] = i;
        for (int k = 0; p->setup && k < p->setup->n_buffers; k++) {
            const int view = p->setup->buffer[k].view;
            if (view >= 0 && bp->views[view].packed >= 0)
                last[bp->packed[bp->views[view].packed].value] = i;
        }
    }
    return last;
}

/* Gives back the pages of a constant that packed[i] was the last to be made from, if they are ours to give. */
static enum clcnn_status drop_pages(struct blueprint *bp, int i, const int *last, struct queue *q,
                                    struct clcnn_err *err)
{
    struct value *v = &bp->graph->values[bp->packed[i].value];
    void *memory = v->owned ? v->owned : v->donated;
    const size_t bytes = shape_bytes(&v->shape);
    if (!memory || last[bp->packed[i].value] != i || bytes < DROP_BYTES)
        return CLCNN_OK;
    enum clcnn_status st = queue_finish(q, err); /* uploads do not block */
    if (st == CLCNN_OK)
        alloc_drop_pages(memory, bytes);
    return st;
}

/* What was to be filled in a phase that failed must not be found by another plan. */
static void abandon_fresh(struct blueprint *bp)
{
    for (int i = 0; i < bp->n_packed; i++) {
        struct packed *p = &bp->packed[i];
        if (p->weight && p->fresh) {
            weight_abandon(bp->dev, p->weight);
            p->weight = NULL;
        }
    }
}

enum clcnn_status blueprint_weights(struct blueprint *bp, const struct clcnn_patience *patience,
                                    struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct queue *q = NULL;
    struct staging staging = {0};
    struct binding *bindings = clcnn_calloc((size_t)bp->n_views + 1, sizeof *bindings);
    int *last = last_uses(bp);
    if (!bindings || !last)
        st = clcnn_fail_mem(err, (size_t)bp->n_views * sizeof *bindings);
    else /* held over the whole phase: another plan that wants the same weights must find them filled */
        st = gate_enter(&bp->dev->weights_gate, patience, "another thread's compile", err);
    if (st != CLCNN_OK) {
        free(bindings);
        free(last);
        return st;
    }
    patience_tell(patience, "weights", 0, 0);
    TRY(queue_create(&q, bp->dev, false, err));
    for (int i = 0; i < bp->n_packed; i++) {
        if (!bp->packed[i].used)
            continue;
        TRY(fill_weight(bp, i, q, bindings, &staging, err));
        TRY(drop_pages(bp, i, last, q, err));
        TRY(patience_look(patience, "the weights", err));
    }
    TRY(queue_finish(q, err));
done:
    if (st != CLCNN_OK)
        abandon_fresh(bp);
    queue_free(q);
    staging_release(&staging, bp->dev);
    gate_leave(&bp->dev->weights_gate);
    free(bindings);
    free(last);
    return st;
}

/* Bytes of an element. Kernels take what is packed for floats, whatever is in it. */
static size_t view_elem(const struct blueprint *bp, const struct view *s)
{
    if (s->storage >= 0)
        return bp->storages[s->storage].elem;
    if (s->packed >= 0 && !bp->packed[s->packed].setup)
        return clcnn_dtype_bytes(bp->graph->values[bp->packed[s->packed].value].shape.dtype);
    return s->state >= 0 ? clcnn_dtype_bytes(bp->state->array[s->state].info.shape.dtype) : sizeof(float);
}

/* Of every view; malloc'd. */
static enum clcnn_status find_bindings(struct binding **out, struct clcnn_plan *plan, struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    struct binding *bindings = clcnn_calloc((size_t)bp->n_views + 1, sizeof *bindings);
    if (!bindings)
        return clcnn_fail_mem(err, (size_t)bp->n_views * sizeof *bindings);
    for (int i = 0; i < bp->n_views; i++) {
        const struct view *s = &bp->views[i];
        const struct zero_copy *shared = s->storage >= 0 ? zero_copy_of_storage(plan, s->storage) : NULL;
        if (shared)
            bindings[i] = (struct binding){.mem = shared->own, .moves = true};
        else if (s->storage >= 0)
            bindings[i] = (struct binding){
                .mem = plan->arena.mem,
                .offset = (int64_t)(bp->storages[s->storage].offset / bp->storages[s->storage].elem),
            };
        else if (s->state >= 0)
            bindings[i] = (struct binding){.mem = bp->state->array[s->state].memory.mem};
        else if (s->packed < 0)
            bindings[i] = (struct binding){.mem = plan->arena.mem,
                                           .offset = (int64_t)(bp->arena_bytes / sizeof(float))};
        else if (bp->packed[s->packed].weight)
            bindings[i] = (struct binding){.mem = bp->packed[s->packed].weight->memory.mem};
        bindings[i].offset += s->offset;
        bindings[i].elem = view_elem(bp, s);
    }
    const enum clcnn_status st = bindings_address(bindings, bp->n_views, bp->dev, err);
    if (st != CLCNN_OK)
        free(bindings);
    else
        *out = bindings;
    return st;
}

enum clcnn_status plan_bind(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    struct binding *bindings = NULL;
    plan->launches = clcnn_calloc((size_t)bp->n_steps + 1, sizeof *plan->launches);
    if (!plan->launches)
        return clcnn_fail_mem(err, (size_t)bp->n_steps * sizeof *plan->launches);
    TRY(find_bindings(&bindings, plan, err));
    for (int i = 0; i < bp->n_steps; i++) {
        struct launch *l = &plan->launches[i];
        const bool chained = bp->n_variants > 0 && bp->variant[i] >= 0;
        TRY(launch_bind(l, bp->dev, chained ? NULL : bp->programs[i], bp->steps[i], bindings, err));
        if (bp->gemm_scratch[i] != VIEW_NONE) {
            const struct storage *r = &bp->storages[bp->views[bp->gemm_scratch[i]].storage];
            TRY(launch_scratch(l, bp->dev, &bindings[bp->gemm_scratch[i]],
                               (size_t)r->item_elems * sizeof(float), err));
        }
    }
    const struct chain_plan of = {(const struct step *const *)bp->steps, bp->variant, bp->wait, bp->weights,
                                  bp->n_steps};
    if (bp->chain_program)
        TRY(chains_bind(&plan->chains, bp->dev, bp->chain_program, plan->launches, &of, bindings, err));
    atomic_store(&plan->launch_count, bp->n_steps);
    for (int i = 1; i < bp->n_steps; i++)
        if (plan->launches[i].chain && plan->launches[i].chain == plan->launches[i - 1].chain)
            atomic_fetch_sub(&plan->launch_count, 1);
    TRY(zero_copy_find_users(plan, err));
done:
    free(bindings);
    return st;
}

enum clcnn_status plan_queue(struct queue **out, struct clcnn_plan *plan, bool profiling,
                             struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    const enum clcnn_status st = queue_create(out, bp->dev, profiling, err);
    if (st == CLCNN_OK && bp->n_counters > 0)
        queue_counters(*out, plan->arena.mem, bp->arena_bytes, bp->n_counters * sizeof(float));
    if (st == CLCNN_OK && bp->rate > 0)
        queue_expect(*out, bp->rate);
    return st;
}

enum clcnn_status plan_bind_launches(struct clcnn_plan *plan, bool *made, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct blueprint *bp = plan->bp;
    struct binding *bindings = NULL;
    *made = false;
    for (int i = 0; i < bp->n_steps; i++)
        *made |= !plan->launches[i].kernel && !plan->launches[i].library;
    if (!*made)
        return CLCNN_OK;
    TRY(blueprint_launch_programs(bp, err));
    TRY(find_bindings(&bindings, plan, err));
    for (int i = 0; i < bp->n_steps; i++) {
        struct launch *l = &plan->launches[i];
        if (!l->kernel && !l->library)
            TRY(launch_bind_kernel(l, bp->dev, bp->programs[i], bp->steps[i], bindings, err));
    }
done:
    free(bindings);
    return st;
}
