/* queue_profile.c: launches one by one, each with an event that tells when it began and ended. */
#include <stdlib.h>

#include "runtime/runtime_private.h"

static enum clcnn_status event_ns(uint64_t *ns, const struct queue *q, cl_event event, cl_profiling_info what,
                                  struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_ulong value = 0;

    CL_TRY(q->dev->api, clGetEventProfilingInfo, event, what, sizeof value, &value, NULL);
    *ns = value;
done:
    return st;
}

/* events[2 * i + 1] is the launch's; events[2 * i] a marker before a library call, whose own event stands for the last of
 * its kernels only. */
static enum clcnn_status enqueue_profiled(struct queue *q, const struct launch *launches, int count,
                                          cl_event *events, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    for (int i = 0; i < count; i++) {
        const struct launch *l = &launches[i];
        if (l->library) {
            CL_TRY(q->dev->api, clEnqueueMarkerWithWaitList, q->cl, 0, NULL, &events[2 * i]);
            device_count(q->dev, +1);
        }
        TRY(launch_enqueue(l, q->dev, q->cl, 0, l->groups, &events[2 * i + 1], err));
        device_count(q->dev, +1);
    }
    CL_TRY(q->dev->api, clFinish, q->cl);
done:
    return st;
}

enum clcnn_status queue_profile(struct queue *q, const struct launch *launches, int count, uint64_t *start_ns,
                                uint64_t *end_ns, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    cl_event *events = clcnn_calloc((size_t)count, 2 * sizeof(cl_event));
    uint64_t first = UINT64_MAX;

    if (events == NULL)
        return clcnn_fail_mem(err, (size_t)count * 2 * sizeof(cl_event));
    TRY(queue_clear_counters(q, err));
    TRY(enqueue_profiled(q, launches, count, events, err));
    queue_is_idle(q);
    q->uncounted = false;
    for (int i = 0; i < count; i++) {
        if (events[2 * i] != NULL)
            TRY(event_ns(&start_ns[i], q, events[2 * i], CL_PROFILING_COMMAND_END, err));
        else
            TRY(event_ns(&start_ns[i], q, events[2 * i + 1], CL_PROFILING_COMMAND_START, err));
        TRY(event_ns(&end_ns[i], q, events[2 * i + 1], CL_PROFILING_COMMAND_END, err));
        first = start_ns[i] < first ? start_ns[i] : first;
    }
    for (int i = 0; i < count; i++) {
        start_ns[i] -= first;
        end_ns[i] = end_ns[i] > first ? end_ns[i] - first : 0;
    }
done:
    if (st != CLCNN_OK)
        queue_cancel(q);
    for (int i = 0; i < 2 * count; i++)
        if (events[i] != NULL)
            queue_drop_event(q, events[i]);
    free(events);
    return st;
}
