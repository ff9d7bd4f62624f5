/* program.c: units become programs: shared in memory, loaded from the disk cache, or built, several at once. Programs
 * without a user stay for the next compile, up to MAX_IDLE of them, until the device is closed. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define MAX_IDLE 128
/* Part of every key; change it when the same text must not find old binaries. */
#define CACHE_FORMAT "clcnn cache 1"
#define STACK_BYTES ((size_t)8 << 20) /* drivers compile with deep recursion */

struct program {
    struct program *next; /* of the device, youngest first */
    cl_program program;
    char key[65], file[64];
    int refs;
    bool from_source, saved;
};

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

/* ---- building one unit ----------------------------------------------------------------------------------------- */

/* Each part with its final zero. */
void program_key(char key[65], const struct clcnn_device *dev, const char *source)
{
    const struct clcnn_device_info *info = &dev->info;
    const char *parts[] = {
        CACHE_FORMAT,   driver_build_options(dev), info->name, info->vendor, info->version, info->driver,
        info->platform, info->platform_version,    source};
    struct sha256 h;

    sha256_init(&h);
    for (int i = 0; i < COUNT_OF(parts); i++)
        sha256_add(&h, parts[i], strlen(parts[i]) + 1);
    sha256_hex(&h, key);
}

/* The binary of a program that has one device; malloc'd, NULL when the driver gives none. */
static unsigned char *binary_of(const struct clcnn_device *dev, const struct program *p, size_t *bytes)
{
    unsigned char *data = NULL;
    cl_int code;

    *bytes = 0;
    CL_CODE(code, dev->api, clGetProgramInfo, p->program, CL_PROGRAM_BINARY_SIZES, sizeof *bytes, bytes,
            NULL);
    if (code != CL_SUCCESS || *bytes == 0)
        return NULL;
    data = clcnn_calloc(*bytes, 1);
    if (data != NULL)
        CL_CODE(code, dev->api, clGetProgramInfo, p->program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL);
    if (code != CL_SUCCESS) {
        free(data);
        return NULL;
    }
    return data;
}

/* The program that p's binary makes once its marked instructions count (ptx.c), in p's place. */
static enum clcnn_status build_marked(struct program *p, struct clcnn_device *dev, const struct unit *unit,
                                      struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    size_t bytes = 0;
    cl_program made = NULL;
    cl_int code, status = CL_SUCCESS;
    unsigned char *binary = binary_of(dev, p, &bytes);
    unsigned char *text = binary != NULL ? ptx_unmarked(binary, bytes, &bytes) : NULL;
    const unsigned char *const_text = text;

    if (text == NULL) {
        st = clcnn_fail_mem(err, bytes);
        goto done;
    }
    code = cl_fault("clCreateProgramWithBinary");
    if (code == CL_SUCCESS)
        made = dev->api->clCreateProgramWithBinary(dev->context, 1, &dev->id, &bytes, &const_text, &status,
                                                   &code);
    if (code != CL_SUCCESS) {
        st = cl_fail(err, "clCreateProgramWithBinary", code);
        goto done;
    }
    dev->api->clReleaseProgram(p->program);
    p->program = made;
    CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, driver_build_options(dev), NULL, NULL);
    if (code != CL_SUCCESS)
        st = build_fail(err, dev, p->program, unit, code);
done:
    free(binary);
    free(text);
    return st;
}

static enum clcnn_status build_source(struct program *p, struct clcnn_device *dev, const struct unit *unit,
                                      const char *source, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_int code;

    CL_MAKE(dev->api, p->program, clCreateProgramWithSource, dev->context, 1, &source, NULL);
    device_count(dev, +1);
    CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, driver_build_options(dev), NULL, NULL);
    /* a driver that does not know the option speaks 1.1 or 1.2 anyway */
    if (code == CL_INVALID_BUILD_OPTIONS)
        CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, "", NULL, NULL);
    if (code == CL_OUT_OF_HOST_MEMORY)
        st = cl_fail(err, "clBuildProgram", code);
    else if (code != CL_SUCCESS)
        st = build_fail(err, dev, p->program, unit, code);
    else if (ptx_is_marked(source))
        TRY(build_marked(p, dev, unit, err));
    p->from_source = true;
done:
    return st;
}

/* True when the disk cache had a binary and the driver took it. */
static bool build_cached(struct program *p, struct clcnn_device *dev)
{
    size_t bytes = 0;
    unsigned char *data = cache_load(dev->cache_dir, p->key, &bytes);
    const unsigned char *const_data = data;
    cl_int code, status = CL_SUCCESS;

    if (data == NULL)
        return false;
    code = cl_fault("clCreateProgramWithBinary");
    if (code == CL_SUCCESS)
        p->program = dev->api->clCreateProgramWithBinary(dev->context, 1, &dev->id, &bytes, &const_data,
                                                         &status, &code);
    free(data);
    if (code != CL_SUCCESS) {
        p->program = NULL;
        return false;
    }
    device_count(dev, +1);
    if (status == CL_SUCCESS)
        CL_CODE(code, dev->api, clBuildProgram, p->program, 1, &dev->id, driver_build_options(dev), NULL,
                NULL);
    if (status != CL_SUCCESS || code != CL_SUCCESS) {
        dev->api->clReleaseProgram(p->program);
        device_count(dev, -1);
        p->program = NULL;
        return false;
    }
    return true;
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

static void make(struct work *w, struct order *o)
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
    if (!build_cached(p, dev))
        o->st = build_source(p, dev, o->unit, o->source, &o->err);
    if (o->st == CLCNN_OK)
        o->program = p;
    else
        destroy(dev, p);
    atomic_fetch_add(&w->made, 1);
}

static void *worker(void *arg)
{
    struct work *w = arg;
    int i;

    while ((i = atomic_fetch_add(&w->next, 1)) < w->count)
        if (w->orders[i].same < 0 && w->orders[i].program == NULL)
            make(w, &w->orders[i]);
    return NULL;
}

/* The caller's share of the work: between two programs it asks whether to go on. The others stop with it. */
static enum clcnn_status work_patiently(struct work *w, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    int i;

    while (st == CLCNN_OK && (i = atomic_fetch_add(&w->next, 1)) < w->count)
        if (w->orders[i].same < 0 && w->orders[i].program == NULL) {
            make(w, &w->orders[i]);
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
    if (w.missing > 0)
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

void program_make_idle(struct clcnn_device *dev, const char *file, char *source)
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
    make(&w, &o);
    publish(dev, &o);
    clcnn_err_clear(&o.err);
    if (o.program != NULL)
        program_release(dev, o.program);
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
    data = binary_of(dev, program, &bytes);
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
