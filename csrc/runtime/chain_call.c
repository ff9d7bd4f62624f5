/* chain_call.c: chains whose machine code the host calls itself. PoCL compiles for the processor that the host runs on, into this
 * process; a launch takes it 40 us and more until all threads are awake and done, a call nothing. The thread of the run is one
 * work-group, and threads of our own the others (crew.c). The chain's kernel tells where its code and its memory are. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define LINE 64 /* bytes of a processor's cache line */
/* Multiply-adds and bytes of the steps of a call, for each thread: fewer are done before another one has begun. */
#define LEAST_COST 100000.0

_Static_assert(CHAIN_WALK_BASES == CHAIN_MEMORIES + 1, "a walk has a base for each memory that moves");

/* A reference of our own: drivers may unload what they have not used for long. */
static void *hold_library(void *code)
{
    Dl_info info;

    if (dladdr(code, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

static enum clcnn_status find_code(struct chain *c, struct clcnn_device *dev, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct chain_code *code = &c->code;
    struct chain_told told = {.code = 0};

    TRY(chain_ask(&told, c, dev, err));
    code->library = told.code != 0 ? hold_library((void *)(intptr_t)told.code) : NULL;
    code->scratch_each = round_up((size_t)told.scratch + LINE, LINE);
    code->scratch = code->library != NULL ? aligned_alloc(LINE, c->members * code->scratch_each) : NULL;
    if (code->scratch == NULL) { /* the chain is launched */
        chain_code_free(code);
        return CLCNN_OK;
    }
    for (int i = 0; i < c->n_moving; i++) {
        void *at;
        TRY(memory_address(&at, dev, c->moving[i], err));
        code->own[i] = code->now[i] = (intptr_t)at;
    }
    code->steps = told.steps;
    code->counters = told.counters;
    code->walk = (chain_walk_fn *)(intptr_t)told.code;
done:
    return st;
}

/* The first plan that wants helpers makes them. */
static void need_crew(struct clcnn_device *dev)
{
    pthread_mutex_lock(&dev->lock);
    if (dev->crew == NULL)
        dev->crew = crew_create((int)dev->info.compute_units - 1);
    pthread_mutex_unlock(&dev->lock);
}

enum clcnn_status chains_find_code(bool *found, struct chain **chains, struct clcnn_device *dev,
                                   struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    *found = chains != NULL && *chains != NULL && (*chains)->group_size == 1 && driver_works_in_place(dev) &&
             cl_fault("chain_call") == CL_SUCCESS;
    for (struct chain **c = chains; *found && *c != NULL; c++) {
        TRY(find_code(*c, dev, err));
        *found = (*c)->code.walk != NULL;
    }
    if (*found)
        need_crew(dev);
done:
    return st;
}

void chain_set_address(struct chain *c, cl_mem own, void *at)
{
    const int i = chain_find(c->moving, c->n_moving, own);

    if (i >= 0)
        c->code.now[i] = at != NULL ? (intptr_t)at : c->code.own[i];
}

/* As many work-groups as have enough to do. */
static i32 parts_of(const struct chain *c, double cost)
{
    const double wanted = cost / LEAST_COST;

    return wanted >= (double)c->members ? (i32)c->members : wanted > 1.0 ? (i32)wanted : 1;
}

/* Leaves zeros in all counters, where chain.clh leaves some of the work-groups' that came. */
void chain_call(struct chain *c, struct clcnn_device *dev, const struct launch *from, int count, i32 low,
                i32 high, double cost)
{
    struct chain_code *code = &c->code;
    char *counters = (char *)(intptr_t)code->counters;
    const i32 first = (i32)(from - c->first), parts = parts_of(c, cost);
    const size_t each = LINE + round_up((size_t)parts * sizeof(i32), LINE);
    struct crew_job job = {
        .code = code->walk,
        .walk = {.steps = code->steps,
                 .counters = code->counters,
                 .count = c->count,
                 .first = first,
                 .past = first + count,
                 .low = low,
                 .high = high,
                 .parts = parts},
        .scratch = code->scratch,
        .scratch_each = code->scratch_each,
    };

    memcpy(job.walk.base + 1, code->now, sizeof code->now);
    if (!code->clean)
        memset(counters, 0, c->counter_bytes);
    crew_run(dev->crew, &job);
    memset(counters + (size_t)first * each, 0, (size_t)count * each);
    code->clean = true;
}
