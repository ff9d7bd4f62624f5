/* queue.c: runs launches on an in-order command queue, with a bounded amount of work outstanding.
 *
 * Launches are enqueued in chunks that should take about CHUNK_MS; a longer launch is cut by groups, with a global offset. At
 * most two chunks are outstanding: one that runs and one that waits, so the device never idles and the host can stop soon. How long a
 * chunk will take follows from the launches' cost and a rate that is learned from the chunks before. A run that fits one chunk, which is
 * the usual case, is enqueued and then finished; it has no event but that of its last kernel, where threads that sleep wake late. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/runtime_private.h"

#define CHUNK_MS 40.0
#define MIN_GROUPS_PER_UNIT 4 /* a slice keeps every compute unit busy */
#define CPU_RATE 4e6          /* cost units per ms and compute unit, before anything was measured */
#define GPU_RATE 5e6
#define POLL_FIRST_NS 20000L
#define POLL_LAST_NS 1000000L
#define WATCH_MS 8.0 /* longer runs do not notice how long a thread takes to wake */

enum clcnn_status queue_create(struct queue **out, struct clcnn_device *dev, bool profiling,
                               struct clcnn_err *err)
{
    const double unit_rate = cpu_device(&dev->info) ? CPU_RATE : GPU_RATE;
    enum clcnn_status st = device_pin(dev, err);
    struct queue *q = NULL;

    if (st != CLCNN_OK)
        return st;
    q = clcnn_calloc(1, sizeof *q);
    if (q == NULL) {
        st = clcnn_fail_mem(err, sizeof *q);
        goto done;
    }
    q->dev = dev;
    q->rate = unit_rate * dev->info.compute_units;
    CL_MAKE(dev->api, q->cl, clCreateCommandQueue, dev->context, dev->id,
            profiling ? CL_QUEUE_PROFILING_ENABLE : 0);
    device_count(dev, +1);
    *out = q;
    q = NULL;
done:
    free(q);
    device_unpin(dev);
    return st;
}

void queue_drop_event(struct queue *q, cl_event event)
{
    q->dev->api->clReleaseEvent(event);
    device_count(q->dev, -1);
}

static void drop_chunks(struct queue *q)
{
    while (q->chunks > 0)
        queue_drop_event(q, q->chunk[--q->chunks].done);
    if (q->last != NULL)
        queue_drop_event(q, q->last);
    q->last = NULL;
    q->stuck = false;
}

/* CL_COMPLETE, a state before it, or a negative code when it failed. */
static cl_int event_state(const struct queue *q, cl_event event)
{
    cl_int state = CL_COMPLETE, code;

    CL_CODE(code, q->dev->api, clGetEventInfo, event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
            NULL);
    return code == CL_SUCCESS ? state : code;
}

bool queue_stuck(const struct queue *q)
{
    return q->stuck && event_state(q, q->chunk[q->chunks - 1].done) > CL_COMPLETE;
}

void queue_free(struct queue *q)
{
    if (q == NULL)
        return;
    /* A stuck queue is left to the driver: releasing it, or what its kernels use, can block until the device answers, which it may
     * never do. In a forked child the driver's threads do not exist. */
    const bool leave = device_forked(q->dev) || queue_stuck(q);
    relays_free(q, leave);
    if (!leave) {
        q->dev->api->clFinish(q->cl);
        drop_chunks(q);
        pinned_unmap(&q->pinned, q->dev, q->cl);
        q->dev->api->clReleaseCommandQueue(q->cl);
        device_count(q->dev, -1);
    }
    free(q);
}

double queue_rate(const struct queue *q)
{
    return q->rate;
}

void queue_expect(struct queue *q, double rate)
{
    q->rate = rate;
}

void queue_counters(struct queue *q, cl_mem mem, size_t offset, size_t bytes)
{
    q->counters = mem;
    q->counters_at = offset;
    q->counters_bytes = bytes;
    q->uncounted = true;
}

enum clcnn_status queue_clear_counters(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const cl_int zero = 0;

    if (q->counters != NULL && q->uncounted)
        CL_TRY(q->dev->api, clEnqueueFillBuffer, q->cl, q->counters, &zero, sizeof zero, q->counters_at,
               q->counters_bytes, 0, NULL, NULL);
    q->uncounted = true;
done:
    return st;
}

void queue_start(struct queue *q, const struct launch *launches, int count)
{
    drop_chunks(q);
    q->launches = launches;
    q->count = count;
    q->next = 0;
    q->group = 0;
    q->then = NULL;
    q->passed = NULL;
    q->chain = NULL;
    q->last_done = 0.0;
    q->whole = q->broke = false;
}

void queue_keep_whole(struct queue *q)
{
    q->whole = true;
}

void queue_call_chains(struct queue *q, bool calls)
{
    q->calls = calls && q->counters == NULL;
}

void queue_then(struct queue *q, queue_fn *then, void *with)
{
    q->then = then;
    q->then_with = with;
}

void queue_tell(struct queue *q, queue_passed_fn *passed, void *with)
{
    q->passed = passed;
    q->passed_with = with;
}

/* Whether this walk must be whole and has begun. */
static bool must_go_on(const struct queue *q)
{
    return q->whole && (q->next > 0 || q->group > 0);
}

/* Enqueues the rest of a walk that is to end early, if it must be whole. */
static void complete(struct queue *q)
{
    for (const bool rest = must_go_on(q); rest && q->next < q->count && !q->broke; q->next++) {
        const struct launch *l = &q->launches[q->next];
        q->broke = launch_enqueue(l, q->dev, q->cl, q->group, l->groups - q->group, NULL, NULL) != CLCNN_OK;
        q->group = 0;
    }
}

void queue_cancel(struct queue *q)
{
    if (device_forked(q->dev))
        return;
    const bool whole = must_go_on(q);
    complete(q);
    q->next = q->count;
    if (q->dev->api->clFinish(q->cl) != CL_SUCCESS)
        q->broke |= whole;
    queue_relay_cancel(q);
    drop_chunks(q);
    queue_is_idle(q);
}

/* ---- the walk -------------------------------------------------------------------------------------------------- */

/* Falls at once and rises step by step: too small a chunk costs little, too large a one makes the host wait. One odd
 * measurement (another process, a driver that compiles) moves it by a factor of four at most. */
static void learn(struct queue *q, double cost, double ms)
{
    const double seen = cost / (ms > 0.001 ? ms : 0.001);

    if (cost <= 0.0)
        return;
    if (seen < q->rate)
        q->rate = seen > q->rate / 4.0 ? seen : q->rate / 4.0;
    else
        q->rate = seen < q->rate * 4.0 ? (seen + q->rate) / 2.0 : q->rate * 2.5;
}

/* How many of the launch's remaining `left` groups, of `each` cost, go into a chunk that has `room` of `budget` left; 0:
 * none. A library call is one group, so it is never cut. */
static size_t slice_of(const struct queue *q, size_t left, double each, double room, double budget)
{
    const size_t least = (size_t)MIN_GROUPS_PER_UNIT * q->dev->info.compute_units;
    size_t groups;

    if (each * (double)left <= room)
        return left;
    if (room < budget) /* it begins in a chunk of its own */
        return 0;
    groups = (size_t)(budget / each);
    if (groups < least)
        groups = least;
    return groups + least <= left ? groups : left;
}

static enum clcnn_status begin_chain(struct queue *q, struct chain *chain, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (chain != NULL && q->chain != chain && !q->calling)
        st = chain_begin(chain, q->dev, q->cl, err);
    q->chain = chain;
    return st;
}

/* Enqueues the next launches that are of one chain, as far as they fit into the room that is left; *cost 0: not even one. */
static enum clcnn_status enqueue_chained(struct queue *q, double room, double *cost, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct launch *from = &q->launches[q->next];
    int n = 0;
    double sum = 0.0;

    *cost = 0.0;
    if (from->chain == NULL || q->group > 0)
        return CLCNN_OK;
    while (q->next + n < q->count && from[n].chain == from->chain && sum + from[n].cost <= room)
        sum += from[n++].cost;
    if (n == 0)
        return CLCNN_OK;
    if (q->calling) {
        chain_call(from->chain, q->dev, from, n, 0, INT32_MAX, sum);
        q->next += n;
        *cost = sum;
        return CLCNN_OK;
    }
    const bool watched = q->next + n == q->count && q->chunks == 0 && driver_wakes_late(q->dev);
    TRY(chain_enqueue(from->chain, q->dev, q->cl, from, n, watched ? &q->last : NULL, err));
    if (watched)
        device_count(q->dev, +1);
    q->next += n;
    *cost = sum;
done:
    return st;
}

static enum clcnn_status enqueue_slice(const struct queue *q, const struct launch *l, size_t groups,
                                       struct clcnn_err *err)
{
    if (q->calling) {
        chain_call(l->chain, q->dev, l, 1, (i32)q->group, (i32)(q->group + groups), l->cost);
        return CLCNN_OK;
    }
    if (l->chain != NULL)
        return chain_enqueue_slice(l->chain, q->dev, q->cl, l, q->group, groups, err);
    return launch_enqueue(l, q->dev, q->cl, q->group, groups, NULL, err);
}

static enum clcnn_status tell(const struct queue *q, struct clcnn_err *err)
{
    return q->passed != NULL && !q->polls ? q->passed(q->passed_with, q->next, err) : CLCNN_OK;
}

/* Enqueues launches up to a chunk's budget; *cost is what was enqueued. */
static enum clcnn_status enqueue_chunk(struct queue *q, double *cost, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const double budget = q->rate * CHUNK_MS;

    for (*cost = 0.0; q->next < q->count;) {
        const struct launch *l = &q->launches[q->next];
        const size_t all = l->library ? 1 : l->groups;
        double chained;
        TRY(tell(q, err));
        TRY(begin_chain(q, l->chain, err));
        TRY(enqueue_chained(q, budget - *cost, &chained, err));
        *cost += chained;
        if (chained > 0.0)
            continue;
        if (q->group < all) {
            const double each = l->cost / (double)all;
            const size_t groups = slice_of(q, all - q->group, each, budget - *cost, budget);
            if (groups == 0)
                break;
            TRY(enqueue_slice(q, l, groups, err));
            *cost += each * (double)groups;
            q->group += groups;
        }
        if (q->group >= all) {
            q->next++;
            q->group = 0;
        }
    }
    TRY(tell(q, err));
done:
    return st;
}

/* Ends a chunk with an event and hands it to the device. */
static enum clcnn_status close_chunk(struct queue *q, double cost, double start_ms, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_event done = NULL;

    CL_TRY(q->dev->api, clEnqueueMarkerWithWaitList, q->cl, 0, NULL, &done);
    device_count(q->dev, +1);
    q->chunk[q->chunks++] =
        (struct chunk){.done = done, .cost = cost, .start_ms = start_ms, .relayed = queue_relayed(q)};
    CL_TRY(q->dev->api, clFlush, q->cl);
done:
    return st;
}

/* Looks at the event until it is complete (OK), `until_ms` is reached (PENDING), or it failed. */
static enum clcnn_status poll_event(struct queue *q, cl_event event, double until_ms, struct clcnn_err *err)
{
    struct timespec pause = {.tv_nsec = POLL_FIRST_NS};
    cl_int state;

    while ((state = event_state(q, event)) > CL_COMPLETE) {
        if (clcnn_clock_ms() >= until_ms)
            return CLCNN_PENDING;
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < POLL_LAST_NS ? pause.tv_nsec * 2 : POLL_LAST_NS;
    }
    return state == CL_COMPLETE ? CLCNN_OK : cl_fail(err, "clGetEventInfo", state);
}

/* Waits for the oldest chunk: blocking, or polling until `until_ms` when that is finite. */
static enum clcnn_status wait_oldest(struct queue *q, bool poll, double until_ms, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct chunk oldest = q->chunk[0];
    double now;

    TRY(queue_relay_serve(q, oldest.relayed, err));
    if (poll)
        TRY(poll_event(q, oldest.done, until_ms, err));
    else
        CL_TRY(q->dev->api, clWaitForEvents, 1, &oldest.done);
    now = clcnn_clock_ms();
    learn(q, oldest.cost, now - (oldest.start_ms > q->last_done ? oldest.start_ms : q->last_done));
    q->last_done = now;
    q->chunk[0] = q->chunk[1];
    q->chunks--;
    queue_drop_event(q, oldest.done);
done:
    return st;
}

/* Leaves its core to whoever has work until the last kernel is done, so that nobody has to wake this thread. */
static enum clcnn_status watch(struct queue *q, struct clcnn_err *err)
{
    const double until_ms = clcnn_clock_ms() + WATCH_MS;
    enum clcnn_status st = CLCNN_OK;

    CL_TRY(q->dev->api, clFlush, q->cl);
    while (event_state(q, q->last) > CL_COMPLETE && clcnn_clock_ms() < until_ms)
        sched_yield();
done:
    return st;
}

/* The whole run fits one chunk and nobody looks at the clock: no event is needed to end it. */
static enum clcnn_status finish_run(struct queue *q, double cost, double start_ms, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (q->last != NULL && cost < q->rate * WATCH_MS && q->dev->part == NULL) /* else it takes another core */
        TRY(watch(q, err));
    CL_TRY(q->dev->api, clFinish, q->cl);
    learn(q, cost, clcnn_clock_ms() - start_ms);
    drop_chunks(q);
done:
    return st;
}

/* After the last launch. What is relayed goes first, since some drivers block in a read of `then`. */
static enum clcnn_status end_walk(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (q->next < q->count || q->then == NULL)
        return CLCNN_OK;
    TRY(queue_relay_serve(q, queue_relayed(q), err));
    TRY(q->then(q->then_with, err));
done:
    return st;
}

/* Calls as much as a chunk may have. */
static enum clcnn_status call_chunk(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    double cost = 0.0;

    if (q->sent) /* inputs may be on their way */
        TRY(queue_finish(q, err));
    const double start = clcnn_clock_ms();
    TRY(enqueue_chunk(q, &cost, err));
    learn(q, cost, clcnn_clock_ms() - start);
    TRY(end_walk(q, err));
    if (q->sent)
        TRY(queue_finish(q, err));
done:
    return st;
}

/* Waits for the oldest chunk when two are outstanding or none is left to enqueue, else enqueues one. */
static enum clcnn_status wait_or_enqueue(struct queue *q, bool poll, double until_ms, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const double start = clcnn_clock_ms();
    double cost = 0.0;

    if (q->calling)
        return call_chunk(q, err);
    if (q->chunks == COUNT_OF(q->chunk) || q->next == q->count)
        return wait_oldest(q, poll, until_ms, err);
    if (q->next == 0 && q->group == 0)
        TRY(queue_clear_counters(q, err));
    TRY(enqueue_chunk(q, &cost, err));
    if (!poll)
        TRY(end_walk(q, err));
    if (q->next == q->count && q->chunks == 0 && !poll)
        TRY(finish_run(q, cost, start, err));
    else
        TRY(close_chunk(q, cost, start, err));
done:
    return st;
}

/* After a time-out: what is enqueued may take as long as it does; the last event tells its end. */
static void give_up(struct queue *q)
{
    if (must_go_on(q)) {
        complete(q);
        if (q->chunks == COUNT_OF(q->chunk))
            queue_drop_event(q, q->chunk[--q->chunks].done);
        q->broke |= close_chunk(q, 0.0, clcnn_clock_ms(), NULL) != CLCNN_OK;
    }
    q->next = q->count;
    q->stuck = q->chunks > 0;
}

enum clcnn_status queue_advance(struct queue *q, double slice_ms, const struct clcnn_patience *patience,
                                struct clcnn_err *err)
{
    const double end_ms = patience_end_ms(patience), slice_end_ms = clcnn_clock_ms() + slice_ms;
    const bool poll = end_ms > 0.0;
    const bool slice_first = !poll || slice_end_ms < end_ms;
    const double until_ms = slice_first ? slice_end_ms : end_ms;
    enum clcnn_status st = CLCNN_OK;

    q->calling = q->calls && !poll;
    q->polls = poll;
    while (st == CLCNN_OK && (q->next < q->count || q->chunks > 0)) {
        if (clcnn_clock_ms() >= until_ms)
            st = CLCNN_PENDING;
        else
            st = wait_or_enqueue(q, poll, until_ms, err);
    }
    if (st == CLCNN_PENDING && !slice_first) {
        give_up(q);
        return clcnn_fail(err, CLCNN_E_TIMEOUT, "the device did not finish within %.4g ms",
                          patience->timeout_ms);
    }
    if (st == CLCNN_OK)
        st = queue_relay_finish(q, err);
    if (st == CLCNN_OK) {
        queue_is_idle(q);
        q->uncounted = false;
    } else if (st != CLCNN_PENDING) {
        queue_cancel(q);
    }
    return st;
}
