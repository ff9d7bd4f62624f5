/* relay.c: results that other devices get too, while the queue that computes them goes on.
 *
 * A second queue of the device reads a buffer into pinned memory of the host as soon as what fills it is done, in pieces. The thread of the
 * run, which has nothing else to do, waits for each piece and writes it to the other devices from there, by their own queues:
 * two GPUs of NVIDIA's read and write the pinned memory of either's context at the bus's full speed, and a copy by the host takes
 * ten times as long. Devices that work in host memory do the same, as copies. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/runtime_private.h"

#define PIECE_BYTES ((size_t)8 << 20)
#define PINNED_ALIGN ((size_t)4096)

struct relay_target {
    struct clcnn_buffer *buffer;
    cl_mem mem;       /* held until the run ends */
    cl_event written; /* the last piece is there; NULL: not sent yet */
};
struct relay_job {
    size_t pinned_at, bytes;
    int first, count; /* of its targets */
};
struct relay_piece {
    int job;
    size_t at, bytes;
    cl_event read;
};
struct relays {
    cl_command_queue side; /* that reads */
    struct pinned pinned;
    struct relay_job *job;
    struct relay_target *target;
    struct relay_piece *piece;
    int jobs, targets, pieces,
        served; /* pieces: those asked for in this run; served: the first so many were sent on */
    int cap_jobs, cap_targets, cap_pieces;
};

static struct clcnn_device *device_of(const struct relay_target *t)
{
    return t->buffer->dev;
}

static void drop_event(struct clcnn_device *dev, cl_event *event)
{
    if (*event == NULL)
        return;
    dev->api->clReleaseEvent(*event);
    device_count(dev, -1);
    *event = NULL;
}

/* ---- before a run ---------------------------------------------------------------------------------------------- */

static enum clcnn_status pin(struct queue *q, struct relays *r, size_t bytes, struct clcnn_err *err)
{
    if (r->pinned.bytes >= bytes)
        return CLCNN_OK;
    pinned_unmap(&r->pinned, q->dev, r->side);
    return pinned_map(&r->pinned, q->dev, r->side, CL_MAP_READ | CL_MAP_WRITE, bytes, err);
}

static enum clcnn_status create(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct relays *r = q->relays;

    if (r == NULL)
        r = q->relays = clcnn_calloc(1, sizeof *r);
    if (r == NULL)
        return clcnn_fail_mem(err, sizeof *r);
    if (r->side != NULL)
        return CLCNN_OK;
    CL_MAKE(q->dev->api, r->side, clCreateCommandQueue, q->dev->context, q->dev->id, 0);
    device_count(q->dev, +1);
done:
    return st;
}

/* Memory for all that a run of these results needs. */
static enum clcnn_status make_room(struct queue *q, const struct relay_result *results, int count,
                                   struct clcnn_err *err)
{
    struct relays *r = q->relays;
    size_t bytes = 0;
    int targets = 0, pieces = 0;

    for (int i = 0; i < count; i++) {
        bytes += round_up(results[i].bytes, PINNED_ALIGN);
        pieces += (int)ceil_div(results[i].bytes, PIECE_BYTES);
        targets += results[i].n_to;
    }
    if (!clcnn_grow((void **)&r->job, &r->cap_jobs, count, sizeof *r->job) ||
        !clcnn_grow((void **)&r->target, &r->cap_targets, targets, sizeof *r->target) ||
        !clcnn_grow((void **)&r->piece, &r->cap_pieces, pieces, sizeof *r->piece))
        return clcnn_fail_mem(err, (size_t)pieces * sizeof *r->piece);
    return pin(q, r, bytes, err);
}

enum clcnn_status queue_relay_begin(struct queue *q, const struct relay_result *results, int count,
                                    struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    size_t at = 0;

    TRY(create(q, err));
    TRY(make_room(q, results, count, err));
    struct relays *r = q->relays;
    for (int i = 0; i < count; i++) {
        r->job[r->jobs++] = (struct relay_job){at, results[i].bytes, r->targets, results[i].n_to};
        at += round_up(results[i].bytes, PINNED_ALIGN);
        for (int k = 0; k < results[i].n_to; k++) {
            struct relay_target *t = &r->target[r->targets];
            *t = (struct relay_target){.buffer = results[i].to[k]};
            TRY(buffer_hold(&t->mem, t->buffer, results[i].bytes, err));
            r->targets++;
        }
    }
done:
    return st;
}

/* ---- in a run -------------------------------------------------------------------------------------------------- */

enum clcnn_status queue_relay(struct queue *q, int job, cl_mem mem, size_t offset, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct cl_api *api = q->dev->api;
    struct relays *r = q->relays;
    const struct relay_job *j = &r->job[job];
    cl_event filled = NULL;

    CL_TRY(api, clEnqueueMarkerWithWaitList, q->cl, 0, NULL, &filled);
    CL_TRY(api, clFlush, q->cl);
    for (size_t at = 0; at < j->bytes; at += PIECE_BYTES) {
        struct relay_piece *p = &r->piece[r->pieces];
        *p = (struct relay_piece){job, at, j->bytes - at < PIECE_BYTES ? j->bytes - at : PIECE_BYTES, NULL};
        CL_TRY(api, clEnqueueReadBuffer, r->side, mem, CL_FALSE, offset + at, p->bytes,
               r->pinned.at + j->pinned_at + at, 1, &filled, &p->read);
        device_count(q->dev, +1);
        r->pieces++;
    }
    CL_TRY(api, clFlush, r->side);
done:
    if (filled != NULL)
        api->clReleaseEvent(filled);
    return st;
}

/* A failure there is the other device's. */
static enum clcnn_status send_on(struct relay_target *t, const struct relay_piece *p, const char *from,
                                 bool last, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_device *dev = device_of(t);
    char prefix[CLCNN_NAME_MAX + 32];

    CL_TRY(dev->api, clEnqueueWriteBuffer, dev->queue, t->mem, CL_FALSE, p->at, p->bytes, from, 0, NULL,
           last ? &t->written : NULL);
    if (last)
        device_count(dev, +1);
    CL_TRY(dev->api, clFlush, dev->queue);
done:
    snprintf(prefix, sizeof prefix, "a result for device %d", dev->info.index);
    return st == CLCNN_OK ? st : err_prefix(err, st, prefix);
}

int queue_relayed(const struct queue *q)
{
    return q->relays == NULL ? 0 : q->relays->pieces;
}

enum clcnn_status queue_relay_serve(struct queue *q, int pieces, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct relays *r = q->relays;

    for (; r != NULL && r->served < pieces; r->served++) {
        struct relay_piece *p = &r->piece[r->served];
        const struct relay_job *j = &r->job[p->job];
        CL_TRY(q->dev->api, clWaitForEvents, 1, &p->read);
        drop_event(q->dev, &p->read);
        for (int i = j->first; i < j->first + j->count; i++)
            TRY(send_on(&r->target[i], p, r->pinned.at + j->pinned_at + p->at, p->at + p->bytes == j->bytes,
                        err));
    }
done:
    return st;
}

enum clcnn_status queue_relay_finish(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct relays *r = q->relays;

    TRY(queue_relay_serve(q, queue_relayed(q), err));
    for (int i = 0; r != NULL && i < r->targets; i++) {
        struct relay_target *t = &r->target[i];
        if (t->written != NULL)
            CL_TRY(device_of(t)->api, clWaitForEvents, 1, &t->written);
        drop_event(device_of(t), &t->written);
    }
    if (r != NULL)
        r->pieces = r->served = 0;
done:
    return st;
}

/* ---- after it -------------------------------------------------------------------------------------------------- */

void queue_relay_cancel(struct queue *q)
{
    struct relays *r = q->relays;

    if (r == NULL || r->pieces == 0)
        return;
    q->dev->api->clFinish(r->side);
    for (int i = 0; i < r->pieces; i++)
        drop_event(q->dev, &r->piece[i].read);
    for (int i = 0; i < r->targets; i++) {
        struct relay_target *t = &r->target[i];
        device_of(t)->api->clFinish(device_of(t)->queue);
        drop_event(device_of(t), &t->written);
    }
    r->pieces = r->served = 0;
}

void queue_relay_end(struct queue *q)
{
    struct relays *r = q->relays;

    if (r == NULL || device_forked(q->dev))
        return;
    queue_relay_cancel(q);
    for (int i = 0; i < r->targets; i++)
        memory_return(&r->target[i].mem, device_of(&r->target[i]));
    r->targets = r->jobs = 0;
}

void relays_free(struct queue *q, bool leave)
{
    struct relays *r = q->relays;

    if (r == NULL)
        return;
    if (!leave && r->side != NULL) {
        pinned_unmap(&r->pinned, q->dev, r->side);
        q->dev->api->clReleaseCommandQueue(r->side);
        device_count(q->dev, -1);
    }
    free(r->job);
    free(r->target);
    free(r->piece);
    free(r);
    q->relays = NULL;
}
