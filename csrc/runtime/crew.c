/* crew.c: threads of our own that help the thread of a run with a chain whose machine code the host can call (chain_call.c). After a
 * job they look for the next one for a while, and then sleep: waking a thread takes longer than many a net. A helper comes when it
 * can: work-groups of a chain wait for nobody who has not begun. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/runtime_private.h"

#define LOOK_NS 100000L   /* between two runs that follow each other at once there is less */
#define LOOKS_BETWEEN 64  /* two looks at the clock */
#define CLOSED (1u << 30) /* in `inside`: no job is open */

struct helper {
    pthread_t thread;
    pthread_cond_t called;
    atomic_bool sleeps;
    struct crew *crew;
    int part; /* of each job, so that a core's caches have its weights */
    int off;  /* the core that it keeps off; -1: none */
};
struct crew {
    struct helper *helper;
    int helpers;
    pthread_mutex_t lock; /* of going to sleep */
    atomic_uint turn;     /* how many jobs there were */
    atomic_uint inside;   /* helpers at the job, and CLOSED */
    atomic_bool taken, over;
    const struct crew_job *job; /* while it is open */
#ifdef CPU_COUNT
    cpu_set_t allowed; /* cores, when the crew was made */
#endif
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* OpenCL's rounding, and no flushing of small numbers, whatever the thread has set: as the driver's own threads. */
static void work(const struct crew_job *job, int part)
{
    struct chain_walk walk = job->walk;
#if defined(__x86_64__)
    const unsigned usual = 0x1f80, own = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(usual);
#endif
    walk.part = part;
    job->code(&walk, job->scratch + (size_t)part * job->scratch_each);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(own);
#endif
}

static long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static bool called(struct crew *c, unsigned seen)
{
    return atomic_load_explicit(&c->turn, memory_order_acquire) != seen || atomic_load(&c->over);
}

/* Looks, then sleeps, until there is another job than `seen`, or no more. */
static void await(struct helper *h, unsigned seen)
{
    struct crew *c = h->crew;
    const long until = now_ns() + LOOK_NS;

    do
        for (int i = 0; i < LOOKS_BETWEEN; i++) {
            if (called(c, seen))
                return;
            relax();
        }
    while (now_ns() < until);
    pthread_mutex_lock(&c->lock);
    atomic_store(&h->sleeps, true);
    while (!called(c, seen))
        pthread_cond_wait(&h->called, &c->lock);
    atomic_store(&h->sleeps, false);
    pthread_mutex_unlock(&c->lock);
}

static void *help(void *of)
{
    struct helper *h = of;
    struct crew *c = h->crew;

    for (unsigned seen = 0;;) {
        await(h, seen);
        if (atomic_load(&c->over))
            return NULL;
        seen = atomic_load(&c->turn);
        /* closed: it came too late */
        if ((atomic_fetch_add(&c->inside, 1) & CLOSED) == 0 && h->part < c->job->walk.parts)
            work(c->job, h->part);
        atomic_fetch_sub(&c->inside, 1);
    }
}

/* Linux often wakes a thread on the core of the one that wakes it, to which both would keep for some ms: long for a net of
 * less. So a helper may be on any core but the caller's. */
static void keep_off(struct helper *h)
{
#ifdef CPU_COUNT
    const int own = sched_getcpu();
    cpu_set_t others = h->crew->allowed;

    if (own < 0 || own >= CPU_SETSIZE || own == h->off)
        return;
    CPU_CLR(own, &others);
    if (CPU_COUNT(&others) > 0 && pthread_setaffinity_np(h->thread, sizeof others, &others) == 0)
        h->off = own;
#endif
}

/* Helpers that are awake see the job by themselves. */
static void wake(struct crew *c, int wanted)
{
    for (int i = 0; i < c->helpers && i < wanted; i++)
        if (atomic_load(&c->helper[i].sleeps)) {
            keep_off(&c->helper[i]);
            pthread_mutex_lock(&c->lock);
            pthread_cond_signal(&c->helper[i].called);
            pthread_mutex_unlock(&c->lock);
        }
}

static bool add_helper(struct crew *c)
{
    struct helper *h = &c->helper[c->helpers];

    h->crew = c;
    h->part = c->helpers + 1;
    h->off = -1;
    pthread_cond_init(&h->called, NULL);
    if (pthread_create(&h->thread, NULL, help, h) != 0) {
        pthread_cond_destroy(&h->called);
        return false;
    }
#ifdef CPU_COUNT
    pthread_setname_np(h->thread, "clcnn crew");
#endif
    c->helpers++;
    return true;
}

struct crew *crew_create(int helpers)
{
    struct crew *c = clcnn_calloc(1, sizeof *c);
    sigset_t all, own;

    if (c == NULL)
        return NULL;
    c->helper = clcnn_calloc((size_t)helpers + 1, sizeof *c->helper);
    pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->inside, CLOSED);
#ifdef CPU_COUNT
    if (sched_getaffinity(0, sizeof c->allowed, &c->allowed) != 0)
        CPU_ZERO(&c->allowed);
#endif
    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_SETMASK, &all, &own);
    while (c->helper != NULL && c->helpers < helpers && add_helper(c))
        ;
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    return c;
}

void crew_free(struct crew *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->over, true);
    for (int i = 0; i < c->helpers; i++)
        pthread_cond_signal(&c->helper[i].called);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->helpers; i++) {
        pthread_join(c->helper[i].thread, NULL);
        pthread_cond_destroy(&c->helper[i].called);
    }
    pthread_mutex_destroy(&c->lock);
    free(c->helper);
    free(c);
}

void crew_run(struct crew *c, const struct crew_job *job)
{
    if (job->walk.parts == 1 || c == NULL || c->helpers == 0 || atomic_exchange(&c->taken, true)) {
        work(job, 0); /* another run has them, or none is wanted */
        return;
    }
    c->job = job;
    atomic_fetch_and(&c->inside, ~CLOSED);
    atomic_fetch_add(&c->turn, 1);
    wake(c, job->walk.parts - 1);
    work(job, 0);
    atomic_fetch_or(&c->inside, CLOSED);
    while (atomic_load(&c->inside) != CLOSED)
        relax();
    atomic_store(&c->taken, false);
}
