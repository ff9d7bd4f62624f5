/* zero_copy.c: inputs and outputs whose memory can be another one in every run. Where the device works in the host's memory (CPU
 * devices) steps read inputs and write outputs where the caller has them, and nothing is copied. They have memory in the
 * arena all the same, a sub-buffer, which steps use when a run cannot borrow: after a time-out the device would still use
 * what the caller may have freed, and vectors of 16 bytes may lie at a multiple of 16 only. Inputs that are lent have none:
 * such a run makes a copy, and the sub-buffer is only what steps know them by. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#define HOST_ALIGN 16

static bool has_library_step(const struct blueprint *bp, int storage)
{
    for (int i = 0; i < bp->n_steps; i++)
        for (int k = 0; !bp->steps[i]->file && k < bp->steps[i]->n_buffers; k++) {
            const int view = bp->steps[i]->buffer[k].view;
            if (view >= 0 && bp->views[view].storage == storage)
                return true;
        }
    return false;
}

/* The storage that is this input or output and nothing else; -1: there is none. */
static int whole_storage(const struct blueprint *bp, const struct io_view *io)
{
    const struct view *s = &bp->views[io->view];
    if (s->storage < 0 || s->offset != 0)
        return -1;
    const struct storage *r = &bp->storages[s->storage];
    const size_t bytes = (size_t)((r->items - 1) * r->stride + r->item_elems) * r->elem;
    return bytes == shape_bytes(&io->info.shape) && bytes > 0 && r->stride == r->item_elems ? s->storage : -1;
}

static int io_at_storage(const struct blueprint *bp, int storage)
{
    int n = 0;
    for (int i = 0; i < bp->n_inputs; i++)
        n += bp->views[bp->inputs[i].view].storage == storage;
    for (int i = 0; i < bp->n_outputs; i++)
        n += bp->views[bp->outputs[i].view].storage == storage;
    return n;
}

static void add_zero_copy(struct blueprint *bp, const struct io_view *io, int index, bool output, bool lent)
{
    const int storage = whole_storage(bp, io);
    if (storage >= 0 && io_at_storage(bp, storage) == 1 && !has_library_step(bp, storage))
        bp->zero_copy[bp->n_zero_copy++] =
            (struct zero_copy_io){.storage = storage, .io = index, .output = output, .lent = lent};
}

void blueprint_zero_copy(struct blueprint *bp, bool lent_inputs)
{
    const struct clcnn_device_info *info = &bp->dev->info;
    if (!cpu_device(info) || !info->host_unified || bp->guard)
        return;
    for (int i = 0; i < bp->n_inputs && i < MAX_ZERO_COPY / 2; i++)
        add_zero_copy(bp, &bp->inputs[i], i, false,
                      lent_inputs && bp->inputs[i].info.shape.dtype == CLCNN_FLOAT32);
    for (int i = 0; i < bp->n_outputs && i < MAX_ZERO_COPY / 2; i++)
        add_zero_copy(bp, &bp->outputs[i], i, true, false);
    bp->stats.shared_ends = bp->n_zero_copy;
}

enum clcnn_status zero_copy_create(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct blueprint *bp = plan->bp;
    for (int i = 0; i < bp->n_zero_copy; i++) {
        const struct storage *r = &bp->storages[bp->zero_copy[i].storage];
        struct zero_copy *p = &plan->zero_copy[i];
        p->of = bp->zero_copy[i];
        TRY(memory_part(&p->own, bp->dev, plan->arena.mem, r->offset, r->bytes, err));
        p->now = p->own;
    }
done:
    return st;
}

struct zero_copy *zero_copy_of_storage(struct clcnn_plan *plan, int storage)
{
    for (int i = 0; i < plan->bp->n_zero_copy; i++)
        if (plan->zero_copy[i].of.storage == storage)
            return &plan->zero_copy[i];
    return NULL;
}

struct zero_copy *zero_copy_of_io(struct clcnn_plan *plan, int io, bool output)
{
    for (int i = 0; i < plan->bp->n_zero_copy; i++)
        if (plan->zero_copy[i].of.io == io && plan->zero_copy[i].of.output == output)
            return &plan->zero_copy[i];
    return NULL;
}

enum clcnn_status zero_copy_find_users(struct clcnn_plan *plan, struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    for (int i = 0; bp->n_zero_copy && i < bp->n_steps; i++)
        for (int k = 0; k < bp->steps[i]->n_buffers; k++) {
            const int view = bp->steps[i]->buffer[k].view;
            struct zero_copy *p = view >= 0 ? zero_copy_of_storage(plan, bp->views[view].storage) : NULL;
            if (!p)
                continue;
            if (!clcnn_grow((void **)&p->users, &p->cap_users, p->n_users + 1, sizeof *p->users))
                return clcnn_fail_mem(err, sizeof *p->users);
            p->users[p->n_users++] = (struct zero_copy_user){.step = i, .buffer = k};
        }
    return CLCNN_OK;
}

static enum clcnn_status point(struct clcnn_plan *plan, struct zero_copy *p, cl_mem mem,
                               struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_device *dev = plan->bp->dev;
    if (p->now == mem)
        return CLCNN_OK;
    p->now = NULL;
    for (int i = 0; i < p->n_users; i++)
        if (!plan->launches[p->users[i].step].chain)
            TRY(launch_set_memory(&plan->launches[p->users[i].step], dev, p->users[i].buffer, mem, err));
    for (struct chain **c = plan->chains; c && *c; c++)
        TRY(chain_set_memory(*c, dev, p->own, mem, err));
    p->now = mem;
done:
    return st;
}

/* Memory that cannot be borrowed is copied; that is no error. */
static enum clcnn_status borrow(struct clcnn_plan *plan, struct zero_copy *p, const struct clcnn_io *io,
                                struct clcnn_err *err)
{
    const struct blueprint *bp = plan->bp;
    const struct io_view *io_view = p->of.output ? &bp->outputs[p->of.io] : &bp->inputs[p->of.io];
    const size_t bytes = shape_bytes(&io_view->info.shape);
    if (io->buffer && io->offset == 0)
        return buffer_hold(&p->borrowed, io->buffer, bytes, err);
    if (!io->buffer && (uintptr_t)io->host % HOST_ALIGN == 0)
        memory_borrow(&p->borrowed, bp->dev, io->host, bytes, p->of.output);
    return CLCNN_OK;
}

/* Memory for a copy of a lent input that a run cannot borrow. */
static enum clcnn_status make_copy(struct clcnn_plan *plan, struct zero_copy *p, struct clcnn_err *err)
{
    const struct io_view *io = &plan->bp->inputs[p->of.io];
    if (p->copy.mem)
        return CLCNN_OK;
    return memory_create(&p->copy, plan->bp->dev, shape_bytes(&io->info.shape), io->info.name, err);
}

static cl_mem memory_now(const struct zero_copy *p)
{
    return p->borrowed ? p->borrowed : p->copy.mem ? p->copy.mem : p->own;
}

/* The same where the host calls the steps: they need an address alone. */
static enum clcnn_status lend(struct clcnn_plan *plan, struct zero_copy *p, const struct clcnn_io *io,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    if (io->buffer)
        TRY(borrow(plan, p, io, err));
    if (p->borrowed)
        TRY(buffer_address(&p->host, io->buffer, err));
    else if (!io->buffer && (uintptr_t)io->host % HOST_ALIGN == 0)
        p->host = (void *)(uintptr_t)io->host;
    if (p->of.lent && !p->host) {
        TRY(make_copy(plan, p, err));
        TRY(memory_address(&p->host, plan->bp->dev, p->copy.mem, err));
    }
    for (struct chain **c = plan->chains; *c; c++)
        chain_set_address(*c, p->own, p->host);
done:
    return st;
}

enum clcnn_status zero_copy_set(struct clcnn_plan *plan, const struct clcnn_io *inputs,
                                const struct clcnn_io *outputs, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < plan->bp->n_zero_copy; i++) {
        struct zero_copy *p = &plan->zero_copy[i];
        const struct clcnn_io *io = !inputs ? NULL : p->of.output ? &outputs[p->of.io] : &inputs[p->of.io];
        if (io && atomic_load(&plan->called)) {
            TRY(lend(plan, p, io, err));
            continue;
        }
        if (io)
            TRY(borrow(plan, p, io, err));
        if (p->of.lent && !p->borrowed)
            TRY(make_copy(plan, p, err));
        TRY(point(plan, p, memory_now(p), err));
    }
done:
    return st;
}

enum clcnn_status zero_copy_launch_all(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < plan->bp->n_zero_copy; i++) {
        const struct zero_copy *p = &plan->zero_copy[i];
        for (int k = 0; p->of.lent && k < p->n_users; k++)
            TRY(launch_set_memory(&plan->launches[p->users[k].step], plan->bp->dev, p->users[k].buffer,
                                  memory_now(p), err));
    }
done:
    return st;
}

enum clcnn_status zero_copy_rebind(struct clcnn_plan *plan, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < plan->bp->n_zero_copy; i++) {
        plan->zero_copy[i].n_users = 0;
        plan->zero_copy[i].now = NULL;
    }
    TRY(zero_copy_find_users(plan, err));
    TRY(zero_copy_set(plan, NULL, NULL, err));
done:
    return st;
}

/* Kernels keep what they point to and do not look at it before the next run has called zero_copy_set(). */
void zero_copy_return(struct clcnn_plan *plan)
{
    for (int i = 0; i < plan->bp->n_zero_copy; i++) {
        struct zero_copy *p = &plan->zero_copy[i];
        if (p->borrowed && !p->host) /* else kernels have what they had */
            p->now = NULL;
        if (p->borrowed)
            memory_return(&p->borrowed, plan->bp->dev);
        if (p->copy.mem && !queue_stuck(plan->queue)) {
            memory_release(&p->copy, plan->bp->dev);
            p->now = NULL;
        }
        p->host = NULL;
    }
}

void zero_copy_free(struct clcnn_plan *plan)
{
    for (int i = 0; i < plan->bp->n_zero_copy; i++) {
        memory_return(&plan->zero_copy[i].own, plan->bp->dev);
        memory_release(&plan->zero_copy[i].copy, plan->bp->dev);
        free(plan->zero_copy[i].users);
    }
}
