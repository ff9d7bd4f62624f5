/* program.c: units become programs: shared in memory, loaded from the disk cache, or built, several at once. Programs
 * without a user stay for the next compile, up to MAX_IDLE of them, until the device is closed. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define MAX_IDLE 128
#define STACK_BYTES ((size_t)8 << 20) /* drivers compile with deep recursion */
/* Programs for which other processes are asked: these take a second or two to open the device. */
#define LEAST_ELSEWHERE 8

static void destroy(struct clcnn_device *dev, struct program *p)
{
    if (p == NULL)
        return;
    if (p->program != NULL && !device_forked(dev)) {
        dev->api->clReleaseProgram(p->program);
        device_count(dev, -1);
    }
    free(p);
}

/* ---- building many --------------------------------------------------------------------------------------------- */

struct order { /* one unit that programs_acquire was asked for */
    const struct unit *unit;
    char *source;
    char key[65];
    int same;                /* an earlier order with this key, -1: none */
    struct program *program; /* held once, by the first order of its key */
    enum clcnn_status st;
    struct clcnn_err err;
};
struct work {
    struct clcnn_device *dev;
    struct order *orders;
    int count, missing;
    atomic_int next, made; /* the orders are taken by several threads */
    const struct clcnn_patience *patience;
};

/* From the disk cache or, where it is not there, from source if that is wanted. */
static void make(struct work *w, struct order *o, bool from_source)
{
    struct clcnn_device *dev = w->dev;
    struct program *p = clcnn_calloc(1, sizeof *p);

    if (p == NULL) {
        o->st = clcnn_fail_mem(&o->err, sizeof *p);
        return;
    }
    memcpy(p->key, o->key, sizeof p->key);
    snprintf(p->file, sizeof p->file, "%s", o->unit->file);
    p->refs = 1;
    const bool done = program_from_cache(p, dev) || from_source;
    if (done && p->program == NULL)
        o->st = program_from_source(p, dev, o->unit, o->source, &o->err);
    if (done && o->st == CLCNN_OK)
        o->program = p;
    else
        destroy(dev, p);
    atomic_fetch_add(&w->made, done);
}

static bool to_make(const struct order *o)
{
    return o->same < 0 && o->program == NULL;
}

/* Where a driver builds one program after another, whatever the threads: has other processes build what the disk cache
 * lacks, and keep it there. What they leave is built here. */
static enum clcnn_status build_elsewhere(struct work *w, struct clcnn_err *err)
{
    const struct clcnn_patience *patience = w->patience;
    struct clcnn_device *dev = w->dev;
    int count = 0;

    if (patience == NULL || patience->build == NULL || w->missing < LEAST_ELSEWHERE ||
        dev->build_threads < 2 || dev->cache_dir == NULL || !device_traits(&dev->info).builds_in_turn ||
        driver_keeps_kernels(dev))
        return CLCNN_OK;
    struct clcnn_source *lacking = clcnn_calloc((size_t)w->missing, sizeof *lacking);
    for (int i = 0; i < w->count && lacking != NULL; i++) {
        struct order *o = &w->orders[i];
        if (to_make(o))
            make(w, o, false);
        if (to_make(o) && o->st == CLCNN_OK)
            lacking[count++] = (struct clcnn_source){o->unit->file, o->source};
    }
    if (count >= LEAST_ELSEWHERE)
        patience->build(patience->with, dev->cache_dir, dev->build_threads, lacking, count);
    free(lacking);
    return patience_look(patience, "the compiler", err);
}

/* For a compile that waits for no compiler: what is neither in memory nor in the disk cache makes it fail. */
static enum clcnn_status load_all(struct work *w, struct clcnn_err *err)
{
    for (int i = 0; i < w->count; i++) {
        struct order *o = &w->orders[i];
        if (to_make(o))
            make(w, o, false);
        if (to_make(o) && o->st == CLCNN_OK)
            return clcnn_fail(err, CLCNN_E_BUILD, "kernel %s has not been built yet", o->unit->file);
    }
    return CLCNN_OK;
}

static void *worker(void *arg)
{
    struct work *w = arg;
    int i;

    while ((i = atomic_fetch_add(&w->next, 1)) < w->count)
        if (to_make(&w->orders[i]))
            make(w, &w->orders[i], true);
    return NULL;
}

/* The caller's share of the work: between two programs it asks whether to go on. The others stop with it. */
static enum clcnn_status work_patiently(struct work *w, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    int i;

    while (st == CLCNN_OK && (i = atomic_fetch_add(&w->next, 1)) < w->count)
        if (to_make(&w->orders[i])) {
            make(w, &w->orders[i], true);
            patience_tell(w->patience, w->orders[i].unit->file, atomic_load(&w->made), w->missing);
            st = patience_look(w->patience, "the compiler", err);
        }
    atomic_store(&w->next, w->count);
    return st;
}

/* The caller works too, so a thread that cannot be started costs time only. */
static enum clcnn_status make_all(struct work *w, struct clcnn_err *err)
{
    enum clcnn_status st;
    const int most = driver_builds_singly(w->dev) ? 1 : w->dev->build_threads;
    const int helpers = (w->missing < most ? w->missing : most) - 1;
    pthread_t *threads = helpers > 0 ? clcnn_calloc((size_t)helpers, sizeof *threads) : NULL;
    pthread_attr_t attr;
    int started = 0;

    if (threads != NULL && pthread_attr_init(&attr) == 0) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        while (started < helpers && pthread_create(&threads[started], &attr, worker, w) == 0)
            started++;
        pthread_attr_destroy(&attr);
    }
    st = work_patiently(w, err);
    for (int i = 0; i < started && !device_forked(w->dev); i++) /* a forked child has no such threads */
        pthread_join(threads[i], NULL);
    free(threads);
    return st;
}

static struct program *find(struct clcnn_device *dev, const char *key)
{
    for (struct program *p = dev->programs; p != NULL; p = p->next)
        if (strcmp(p->key, key) == 0)
            return p;
    return NULL;
}

/* Sources and keys; orders whose program is there already are done after this. Returns how many are to be made. */
static enum clcnn_status prepare(struct work *w, const struct unit *units, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    for (int i = 0; i < w->count; i++) {
        struct order *o = &w->orders[i];
        o->unit = &units[i];
        o->same = -1;
        TRY(unit_source(&o->source, w->dev->kernel_dir, o->unit, err));
        program_key(o->key, w->dev, o->source);
        for (int k = 0; k < i && o->same < 0; k++)
            if (w->orders[k].same < 0 && strcmp(w->orders[k].key, o->key) == 0)
                o->same = k;
        if (o->same >= 0)
            continue;
        pthread_mutex_lock(&w->dev->lock);
        o->program = find(w->dev, o->key);
        if (o->program != NULL)
            o->program->refs++;
        pthread_mutex_unlock(&w->dev->lock);
        w->missing += o->program == NULL;
    }
done:
    return st;
}

/* Puts new programs on the device's list. Another thread may have made the same one meanwhile: then that one is used. */
static void publish(struct clcnn_device *dev, struct order *o)
{
    struct program *extra = NULL;

    if (o->program == NULL)
        return;
    pthread_mutex_lock(&dev->lock);
    struct program *known = find(dev, o->key);
    if (known == NULL) {
        o->program->next = dev->programs;
        dev->programs = o->program;
        dev->stats.programs_built += o->program->from_source;
        dev->stats.programs_loaded += !o->program->from_source;
    } else if (known != o->program) {
        extra = o->program;
        known->refs++;
        o->program = known;
    }
    pthread_mutex_unlock(&dev->lock);
    destroy(dev, extra);
}

static enum clcnn_status first_failure(struct work *w, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    for (int i = 0; i < w->count; i++) {
        struct order *o = &w->orders[i];
        if (o->st != CLCNN_OK && st == CLCNN_OK && err != NULL) {
            *err = o->err; /* the log moves with it */
            o->err = (struct clcnn_err){.status = CLCNN_OK};
        }
        if (o->st != CLCNN_OK && st == CLCNN_OK)
            st = o->st;
        clcnn_err_clear(&o->err);
    }
    return st;
}

/* Gives every asker its own reference; the first order of a key hands on the one that it holds. */
static void hand_out(struct work *w, struct program **programs)
{
    pthread_mutex_lock(&w->dev->lock);
    for (int i = 0; i < w->count; i++) {
        const struct order *o = &w->orders[i];
        programs[i] = o->same >= 0 ? w->orders[o->same].program : o->program;
        programs[i]->refs += o->same >= 0;
    }
    pthread_mutex_unlock(&w->dev->lock);
}

enum clcnn_status programs_acquire(struct clcnn_device *dev, const struct unit *units, int count,
                                   struct program **programs, int *missing,
                                   const struct clcnn_patience *patience, struct clcnn_err *err)
{
    enum clcnn_status st = device_pin(dev, err), stopped = CLCNN_OK;
    struct work w = {.dev = dev, .count = count, .patience = patience};

    if (st != CLCNN_OK)
        return st;
    w.orders = clcnn_calloc((size_t)count, sizeof *w.orders);
    if (w.orders == NULL) {
        st = clcnn_fail_mem(err, (size_t)count * sizeof *w.orders);
        goto done;
    }
    ahead_wait(dev);
    TRY(prepare(&w, units, err));
    *missing = w.missing;
    patience_tell(patience, "programs", 0, w.missing);
    stopped = patience != NULL && patience->loads_only ? load_all(&w, err) : build_elsewhere(&w, err);
    if (w.missing > 0 && stopped == CLCNN_OK)
        stopped = make_all(&w, err);
    if (device_forked(dev)) { /* by whoever was asked: this is the child, and all of it is the parent's */
        device_enter(dev, err);
        return CLCNN_E_STATE;
    }
    for (int i = 0; i < count; i++)
        publish(dev, &w.orders[i]);
    st = first_failure(&w, stopped == CLCNN_OK ? err : NULL);
    TRY(stopped == CLCNN_OK ? st : stopped);
    hand_out(&w, programs);
    for (int i = 0; i < count; i++)
        if (w.orders[i].same < 0)
            ahead_note(dev, units[i].file, w.orders[i].source);
done:
    for (int i = 0; i < count && w.orders != NULL; i++) {
        if (st != CLCNN_OK && w.orders[i].program != NULL)
            program_release(dev, w.orders[i].program);
        free(w.orders[i].source);
    }
    free(w.orders);
    device_unpin(dev);
    return st;
}

void program_make_idle(struct clcnn_device *dev, const char *file, char *source, bool saved)
{
    const struct unit unit = {.file = file};
    struct order o = {.unit = &unit, .source = source, .same = -1};
    struct work w = {.dev = dev, .orders = &o, .count = 1};

    program_key(o.key, dev, source);
    pthread_mutex_lock(&dev->lock);
    const bool known = find(dev, o.key) != NULL;
    pthread_mutex_unlock(&dev->lock);
    if (known)
        return;
    make(&w, &o, true);
    publish(dev, &o);
    clcnn_err_clear(&o.err);
    if (o.program != NULL && saved)
        program_save(dev, o.program);
    if (o.program != NULL)
        program_release(dev, o.program);
}

enum clcnn_status clcnn_device_build(struct clcnn_device *dev, const struct clcnn_source *source,
                                     struct clcnn_err *err)
{
    enum clcnn_status st = device_pin(dev, err);
    char *text = NULL;

    if (st != CLCNN_OK)
        return st;
    text = clcnn_strdup(source->text);
    if (text != NULL)
        program_make_idle(dev, source->file, text, true);
    else
        st = clcnn_fail_mem(err, strlen(source->text));
    free(text);
    device_unpin(dev);
    return st;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

void program_retain(struct clcnn_device *dev, struct program *program)
{
    pthread_mutex_lock(&dev->lock);
    program->refs++;
    pthread_mutex_unlock(&dev->lock);
}

void programs_drop_idle(struct clcnn_device *dev, int keep)
{
    struct program *dropped = NULL;

    pthread_mutex_lock(&dev->lock);
    for (struct program **link = &dev->programs; *link != NULL;) {
        struct program *p = *link;
        if (p->refs > 0 || keep-- > 0) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        p->next = dropped;
        dropped = p;
    }
    pthread_mutex_unlock(&dev->lock);
    while (dropped != NULL) {
        struct program *p = dropped;
        dropped = p->next;
        destroy(dev, p);
    }
}

void program_release(struct clcnn_device *dev, struct program *program)
{
    bool idle, closed;

    if (device_forked(dev))
        return;
    pthread_mutex_lock(&dev->lock);
    idle = --program->refs == 0;
    closed = dev->closed;
    pthread_mutex_unlock(&dev->lock);
    if (idle)
        programs_drop_idle(dev, closed ? 0 : MAX_IDLE);
}

void program_save(struct clcnn_device *dev, struct program *program)
{
    unsigned char *data;
    size_t bytes;
    bool wanted;

    pthread_mutex_lock(&dev->lock);
    wanted = dev->cache_dir != NULL && program->from_source && !program->saved && !driver_keeps_kernels(dev);
    program->saved = true;
    pthread_mutex_unlock(&dev->lock);
    if (!wanted)
        return;
    data = program_binary(dev, program->program, &bytes);
    if (data != NULL)
        cache_save(dev->cache_dir, program->key, data, bytes);
    free(data);
}

enum clcnn_status program_kernel(cl_kernel *out, struct clcnn_device *dev, struct program *program,
                                 const char *entry, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    char name[128];

    snprintf(name, sizeof name, "%.80s_k_%.40s", program->file, entry);
    CL_MAKE(dev->api, *out, clCreateKernel, program->program, name);
    device_count(dev, +1);
done:
    return st == CLCNN_OK ? st : err_prefix(err, st, name);
}
