/* chain.c: consecutive launches of a plan bound to one kernel that runs them all; see kernels/chain/chain.clh and chain_groups.clh. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"
#include "chain/chain_args.h"

/* Index of the kernel's first parameter that is memory. */
#define CHAIN_FIRST_MEMORY 8
/* Counters of a step, both sets of them: kernels/chain/chain_groups.clh. */
#define GROUP_COUNTER_BYTES 1664
/* kernels/chain/chain.clh: a line, and those that hold one counter of each work-group. */
#define COUNTER_LINE 64
/* Behind the counters: whether a wait was too long, how many looks are too many, multiprocessors. */
#define MARK_BYTES 16
/* Of a chain, which takes them as addresses. */
#define MOST_MEMORIES 4096
#define CACHE_LINE 128
#define NOWHERE INT32_MAX /* in the place of memory: an address of 0 */
/* A look takes 10 ns at the very least, since the counter lies in a cache that all multiprocessors share. */
#define MOST_LOOKS (1 << 22)
#define LOOK_MS 1e-5

_Static_assert(CHAIN_STEP_BUFFERS == MAX_STEP_BUFFERS && sizeof(struct chain_args) == MAX_STEP_ARGS,
               "a step of a chain holds what a step can hold");

struct unit chain_unit(const struct step *const *variants, int n_variants)
{
    return (struct unit){.file = CHAIN_FILE,
                         .entry = {"main"},
                         .n_entries = 1,
                         .variants = variants,
                         .n_variants = n_variants,
                         .group_size = variants[0]->group_size};
}

void chain_code_free(struct chain_code *code)
{
    if (code->library != NULL)
        dlclose(code->library);
    free(code->scratch);
    *code = (struct chain_code){.walk = NULL};
}

static void chain_free(struct chain *c, struct clcnn_device *dev)
{
    if (c == NULL)
        return;
    if (c->kernel != NULL && !device_forked(dev)) {
        dev->api->clReleaseKernel(c->kernel);
        device_count(dev, -1);
    }
    memory_release(&c->table, dev);
    memory_release(&c->counters, dev);
    chain_code_free(&c->code);
    free(c->used);
    free(c);
}

void chains_free(struct chain **chains, struct clcnn_device *dev)
{
    for (struct chain **c = chains; c != NULL && *c != NULL; c++)
        chain_free(*c, dev);
    free(chains);
}

int chain_find(const cl_mem *all, int count, cl_mem mem)
{
    for (int i = 0; i < count; i++)
        if (all[i] == mem)
            return i;
    return -1;
}

/* *index is that among the chain's memory objects until resolve(), or -1 - k for the k-th one that moves. False: the chain
 * is full, or the host is. */
static bool use(i32 *index, struct chain *c, const struct binding *at)
{
    const int known =
        chain_find(at->moves ? c->moving : c->used, at->moves ? c->n_moving : c->n_used, at->mem);

    if (known >= 0) {
        *index = at->moves ? -1 - known : known;
    } else if (at->moves) {
        if (c->n_moving == CHAIN_MEMORIES)
            return false;
        c->moving[c->n_moving++] = at->mem;
        *index = -c->n_moving;
    } else {
        if (c->n_used == MOST_MEMORIES ||
            !clcnn_grow((void **)&c->used, &c->cap_used, c->n_used + 1, sizeof *c->used))
            return false;
        *index = c->n_used;
        c->used[c->n_used++] = at->mem;
    }
    return true;
}

/* Operand k of a row; with VIEW_NONE memory that nobody reads. */
static bool add_operand(struct chain *c, struct chain_step *row, struct clcnn_device *dev, int k, int view,
                        int64_t offset, const struct binding *bindings)
{
    const struct binding none = {.mem = dev->dummy}, *at = view == VIEW_NONE ? &none : &bindings[view];

    row->offset[k] = (at->offset + offset) * (i64)at->elem;
    return use(&row->buffer[k], c, at);
}

static bool add_step(struct chain *c, struct chain_step *row, struct clcnn_device *dev,
                     const struct chain_plan *of, int step, int wait, const struct binding *bindings)
{
    const struct step *s = of->steps[step];
    const int used = c->n_used, moving = c->n_moving;
    bool room = true;

    memset(row, 0, sizeof *row);
    row->buffer[CHAIN_ONLY_IF] = NOWHERE;
    for (int i = 0; room && i < s->n_buffers; i++)
        room = add_operand(c, row, dev, i, s->buffer[i].view, s->buffer[i].offset, bindings);
    if (room && s->only_if.view != VIEW_NONE)
        room = add_operand(c, row, dev, CHAIN_ONLY_IF, s->only_if.view, s->only_if.offset, bindings);
    if (!room) {
        c->n_used = used;
        c->n_moving = moving;
        return false;
    }
    memcpy(&row->args, s->args, s->args_bytes);
    row->variant = of->variant[step];
    row->groups = (i32)s->groups;
    row->wait = wait;
    row->fixed = of->weights[step].operand;
    row->lines = (i32)(of->weights[step].bytes / CACHE_LINE);
    return true;
}

/* Which work-group has a step's first group: the one after the last step's where both may run side by side. */
static void deal_out(const struct chain *c, struct chain_step *rows)
{
    for (int i = 1; i < c->count; i++)
        if (rows[i].wait < i)
            rows[i].at = (i32)((size_t)(rows[i - 1].at + rows[i - 1].groups) % c->members);
}

/* The table has addresses: a launch with a hundred memory objects takes drivers long, and they stay where they are. What a run
 * may replace is a parameter, and the table has offsets in it. */
static enum clcnn_status resolve(struct chain *c, struct chain_step *rows, struct clcnn_device *dev,
                                 struct program *program, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_ulong *address = clcnn_calloc((size_t)c->n_used + 1, sizeof *address);

    if (address == NULL)
        return clcnn_fail_mem(err, (size_t)c->n_used * sizeof *address);
    TRY(addresses_find(address, c->used, c->n_used, dev, program, err));
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < CHAIN_STEP_BUFFERS; k++) {
            const int index = rows[i].buffer[k];
            rows[i].offset[k] += index < 0 || index == NOWHERE ? 0 : (i64)address[index];
            rows[i].buffer[k] = index < 0 ? -index : 0;
        }
done:
    free(address);
    return st;
}

/* Work-groups of the chain's kernel that the device surely holds at once. */
static enum clcnn_status find_members(struct chain *c, struct clcnn_device *dev, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_ulong local = 0;

    CL_TRY(dev->api, clGetKernelWorkGroupInfo, c->kernel, dev->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local,
           &local, NULL);
    c->members =
        device_units(&dev->info) * (c->group_size == 1 ? 1 : driver_resident(dev, c->group_size, local));
done:
    return st;
}

static size_t counter_bytes(const struct chain *c)
{
    if (c->group_size > 1)
        return GROUP_COUNTER_BYTES;
    return 2 * (COUNTER_LINE + round_up(c->members * sizeof(cl_int), COUNTER_LINE));
}

static enum clcnn_status finish_chain(struct chain *c, struct chain_step *rows, struct clcnn_device *dev,
                                      struct program *program, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const size_t bytes = (size_t)c->count * sizeof *rows;

    c->bound = cl_fault("chain_bound") != CL_SUCCESS ? 0 : MOST_LOOKS;
    const cl_int mark[MARK_BYTES / sizeof(cl_int)] = {0, c->bound, (cl_int)device_units(&dev->info), 0};
    TRY(program_kernel(&c->kernel, dev, program, "main", err));
    TRY(find_members(c, dev, err));
    c->counter_bytes = (size_t)c->count * counter_bytes(c);
    deal_out(c, rows);
    TRY(resolve(c, rows, dev, program, err));
    TRY(memory_create(&c->table, dev, bytes, "step table of the plan", err));
    TRY(memory_create(&c->counters, dev, c->counter_bytes + MARK_BYTES, "step counters of the plan", err));
    CL_TRY(dev->api, clEnqueueWriteBuffer, dev->queue, c->table.mem, CL_TRUE, 0, bytes, rows, 0, NULL, NULL);
    CL_TRY(dev->api, clEnqueueWriteBuffer, dev->queue, c->counters.mem, CL_TRUE, c->counter_bytes,
           sizeof mark, mark, 0, NULL, NULL);
    CL_TRY(dev->api, clSetKernelArg, c->kernel, 0, sizeof(cl_mem), &c->table.mem);
    CL_TRY(dev->api, clSetKernelArg, c->kernel, 1, sizeof(cl_mem), &c->counters.mem);
    CL_TRY(dev->api, clSetKernelArg, c->kernel, 2, sizeof(cl_int), &c->count);
    memset(c->range, -1, sizeof c->range);
    for (int i = 0; c->group_size == 1 && i < CHAIN_MEMORIES; i++)
        CL_TRY(dev->api, clSetKernelArg, c->kernel, (cl_uint)(CHAIN_FIRST_MEMORY + i), sizeof(cl_mem),
               i < c->n_moving ? &c->moving[i] : NULL);
done:
    return st;
}

enum clcnn_status chains_bind(struct chain ***out, struct clcnn_device *dev, struct program *program,
                              struct launch *launches, const struct chain_plan *of,
                              const struct binding *bindings, struct clcnn_err *err)
{
    enum clcnn_status st = device_pin(dev, err);
    struct chain **chains = NULL, *c = NULL;
    struct chain_step *rows = NULL;
    const int count = of->count;
    int made = 0, first = 0;

    if (st != CLCNN_OK)
        return st;
    chains = clcnn_calloc((size_t)count + 1, sizeof(struct chain *));
    rows = clcnn_calloc((size_t)count + 1, sizeof *rows);
    if (chains == NULL || rows == NULL) {
        st = clcnn_fail_mem(err, (size_t)count * sizeof *rows);
        goto done;
    }
    for (int i = 0; i <= count; i++) {
        const bool chained = i < count && of->variant[i] >= 0;
        const int wait = chained && of->wait[i] > first ? of->wait[i] - first : 0;
        if (c != NULL && (!chained || !add_step(c, &rows[c->count], dev, of, i, wait, bindings))) {
            TRY(finish_chain(c, rows, dev, program, err));
            c = NULL;
        }
        if (!chained)
            continue;
        if (c == NULL) {
            c = chains[made++] = clcnn_calloc(1, sizeof *c);
            if (c == NULL) {
                st = clcnn_fail_mem(err, sizeof *c);
                goto done;
            }
            c->first = &launches[i];
            c->group_size = of->steps[i]->group_size;
            first = i;
            if (!add_step(c, &rows[0], dev, of, i, 0, bindings)) { /* an empty chain takes any step */
                st = clcnn_fail_mem(err, sizeof *c->used);
                chain_free(c, dev);
                chains[--made] = NULL;
                goto done;
            }
        }
        launches[i].chain = c;
        c->count++;
    }
    *out = chains;
    chains = NULL;
done:
    for (int i = 0; chains != NULL && i < count; i++)
        launches[i].chain = NULL;
    chains_free(chains, dev);
    free(rows);
    device_unpin(dev);
    return st;
}

enum clcnn_status chain_set_memory(struct chain *c, struct clcnn_device *dev, cl_mem own, cl_mem mem,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    const int i = chain_find(c->moving, c->n_moving, own);

    if (i >= 0)
        CL_TRY(dev->api, clSetKernelArg, c->kernel, (cl_uint)(CHAIN_FIRST_MEMORY + i), sizeof mem, &mem);
done:
    return st;
}

/* The run before has cleared the other set, unless it left out steps or cut some. */
enum clcnn_status chain_begin(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const cl_int zero = 0;

    if (c->enqueued != c->count)
        CL_TRY(dev->api, clEnqueueFillBuffer, queue, c->counters.mem, &zero, sizeof zero, 0, c->counter_bytes,
               0, NULL, NULL);
    c->enqueued = 0;
    c->set = 1 - c->set;
    c->code.clean = false;
done:
    return st;
}

enum clcnn_status chains_failed(bool *failed, struct chain **chains, struct queue *q, double ms,
                                struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    *failed = chains != NULL && *chains != NULL && cl_fault("chain_wait") != CL_SUCCESS;
    for (struct chain **at = chains; at != NULL && *at != NULL; at++) {
        const struct chain *c = *at;
        cl_int mark = 0;
        if (c->group_size == 1 || ms < (double)c->bound * LOOK_MS)
            continue;
        TRY(queue_read(q, c->counters.mem, c->counter_bytes, &mark, sizeof mark, err));
        TRY(queue_finish(q, err));
        *failed = *failed || mark != 0;
    }
    q->uncounted = q->uncounted || *failed; /* steps were left out */
done:
    return st;
}

/* Steps [first, past), of each the groups [low, high), with a set of counters. */
static enum clcnn_status enqueue(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                                 const struct launch *from, int count, cl_int low, cl_int high, cl_int set,
                                 cl_event *event, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const cl_int first = (cl_int)(from - c->first), past = first + count;
    const cl_int value[] = {set, first, past, low, high};
    const size_t items = c->members * c->group_size;

    for (int i = 0; i < COUNT_OF(value); i++)
        if (value[i] != c->range[i]) {
            CL_TRY(dev->api, clSetKernelArg, c->kernel, (cl_uint)(CHAIN_FIRST_MEMORY - COUNT_OF(value) + i),
                   sizeof value[i], &value[i]);
            c->range[i] = value[i];
        }
    CL_TRY(dev->api, clEnqueueNDRangeKernel, queue, c->kernel, 1, NULL, &items, &c->group_size, 0, NULL,
           event);
done:
    return st == CLCNN_OK ? st : err_prefix(err, st, from->layer);
}

enum clcnn_status chain_enqueue(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                                const struct launch *from, int count, cl_event *event, struct clcnn_err *err)
{
    const enum clcnn_status st = enqueue(c, dev, queue, from, count, 0, INT32_MAX, c->set, event, err);

    if (st == CLCNN_OK) /* else steps were left out, and counters are not what they would be */
        c->enqueued += count;
    return st;
}

/* The slices of a step take the two sets in turn, since each clears the other one; other steps keep to the run's. `enqueued`
 * stays short of the count then, so that the next run clears both. */
enum clcnn_status chain_enqueue_slice(struct chain *c, struct clcnn_device *dev, cl_command_queue queue,
                                      const struct launch *l, size_t first, size_t groups,
                                      struct clcnn_err *err)
{
    c->slice_set = first == 0 ? c->set : 1 - c->slice_set;
    return enqueue(c, dev, queue, l, 1, (cl_int)first, (cl_int)(first + groups), c->slice_set, NULL, err);
}

enum clcnn_status chain_ask(struct chain_told *told, struct chain *c, struct clcnn_device *dev,
                            struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    TRY(enqueue(c, dev, dev->queue, c->first, -2, 0, 0, 0, NULL, err)); /* -1: not set yet */
    CL_TRY(dev->api, clEnqueueReadBuffer, dev->queue, c->counters.mem, CL_TRUE, 0, sizeof *told, told, 0,
           NULL, NULL);
    c->enqueued = -1; /* they are no counters now */
    c->code.clean = false;
done:
    return st;
}
