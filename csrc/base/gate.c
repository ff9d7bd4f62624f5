/* gate.c: the clock, and waiting for another thread in slices. */
#include "base/gate.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

double clcnn_clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double patience_end_ms(const struct clcnn_patience *p)
{
    return p != NULL && p->timeout_ms > 0.0 ? p->start_ms + p->timeout_ms : 0.0;
}

enum clcnn_status patience_look(const struct clcnn_patience *p, const char *what, struct clcnn_err *err)
{
    const pid_t pid = getpid();
    const double end_ms = patience_end_ms(p);
    bool stop = false;

    if (p != NULL && p->stop != NULL)
        stop = p->stop(p->with);
    if (getpid() != pid)
        return clcnn_fail(
            err, CLCNN_E_STATE,
            "the process was forked in the middle of this call, which cannot go on in the child");
    if (stop)
        return clcnn_fail(err, CLCNN_E_STOPPED, "stopped while waiting for %s", what);
    if (end_ms > 0.0 && clcnn_clock_ms() >= end_ms)
        return clcnn_fail(err, CLCNN_E_TIMEOUT, "%s did not finish within %.4g ms", what, p->timeout_ms);
    return CLCNN_OK;
}

void patience_tell(const struct clcnn_patience *p, const char *what, int done, int wanted)
{
    if (p != NULL && p->tell != NULL)
        p->tell(p->with, what, done, wanted);
}

void gate_init(struct gate *g)
{
    pthread_mutex_init(&g->mutex, NULL);
#ifdef __APPLE__
    pthread_cond_init(&g->opened, NULL);
#else
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->opened, &monotonic);
    pthread_condattr_destroy(&monotonic);
#endif
    g->held = false;
}

void gate_destroy(struct gate *g)
{
    pthread_cond_destroy(&g->opened);
    pthread_mutex_destroy(&g->mutex);
}

static struct timespec time_of(double ms)
{
    const double seconds = floor(ms / 1e3);

    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((ms - seconds * 1e3) * 1e6)};
}

/* Until the gate has opened, a slice or the patience is over. With the mutex held. */
static void wait_slice(struct gate *g, const struct clcnn_patience *p)
{
    const double now_ms = clcnn_clock_ms(), end_ms = patience_end_ms(p);
    const double left_ms = end_ms > 0.0 ? fmax(end_ms - now_ms, 0.0) : SLICE_MS;
    const double slice_ms = fmin(left_ms, SLICE_MS);
#ifdef __APPLE__
    const struct timespec slice = time_of(slice_ms);
    pthread_cond_timedwait_relative_np(&g->opened, &g->mutex, &slice);
#else
    const struct timespec until = time_of(now_ms + slice_ms);
    pthread_cond_timedwait(&g->opened, &g->mutex, &until);
#endif
}

enum clcnn_status gate_enter(struct gate *g, const struct clcnn_patience *p, const char *what,
                             struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    pthread_mutex_lock(&g->mutex);
    while (g->held) {
        wait_slice(g, p);
        if (!g->held)
            break;
        pthread_mutex_unlock(&g->mutex);
        st = patience_look(p, what, err); /* may run anything, so no lock is held */
        if (st != CLCNN_OK)
            return st;
        pthread_mutex_lock(&g->mutex);
    }
    g->held = true;
    pthread_mutex_unlock(&g->mutex);
    return CLCNN_OK;
}

void gate_leave(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->held = false;
    pthread_mutex_unlock(&g->mutex);
    pthread_cond_signal(&g->opened);
}
