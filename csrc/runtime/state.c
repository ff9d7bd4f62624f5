/* state.c: named arrays of device memory that several plans read and change, in turns; see clcnn_state in clcnn.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

static void release(struct clcnn_state *s)
{
    for (int i = 0; i < s->count; i++)
        memory_release(&s->array[i].memory, s->dev);
}

/* Without its device memory. */
static void discard(struct clcnn_state *s)
{
    for (int i = 0; i < s->count; i++)
        free((char *)(uintptr_t)s->array[i].info.name);
    gate_destroy(&s->gate);
    free(s->array);
    free(s);
}

static enum clcnn_status add_array(struct clcnn_state *s, const struct clcnn_state_array *given,
                                   struct clcnn_err *err)
{
    struct state_array *a = &s->array[s->count];
    enum clcnn_status st = CLCNN_OK;
    char what[CLCNN_NAME_MAX + 16];

    snprintf(what, sizeof what, "state %s", given->name);
    if (given->name[0] == '\0')
        return clcnn_fail(err, CLCNN_E_VALUE, "state: an array needs a name");
    if (clcnn_state_find(s, given->name) >= 0)
        return clcnn_fail(err, CLCNN_E_VALUE, "%s: an array of this name exists already", what);
    TRY(shape_check(&given->shape, what, err));
    a->info = (struct clcnn_state_array){clcnn_strdup(given->name), given->shape};
    if (a->info.name == NULL)
        return clcnn_fail_mem(err, strlen(given->name));
    s->count++;
    st = memory_create(&a->memory, s->dev, shape_bytes(&given->shape), what, err);
done:
    return st;
}

enum clcnn_status clcnn_state_create(struct clcnn_state **out, struct clcnn_device *dev,
                                     const struct clcnn_state_array *arrays, int count, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_state *s;

    TRY(device_enter(dev, err));
    s = clcnn_calloc(1, sizeof *s);
    if (s == NULL)
        return clcnn_fail_mem(err, sizeof *s);
    s->dev = dev;
    gate_init(&s->gate);
    atomic_init(&s->closed, false);
    s->array = clcnn_calloc((size_t)count + 1, sizeof *s->array);
    if (s->array == NULL)
        st = clcnn_fail_mem(err, (size_t)count * sizeof *s->array);
    for (int i = 0; st == CLCNN_OK && i < count; i++)
        st = add_array(s, &arrays[i], err);
    if (st == CLCNN_OK) {
        *out = s;
    } else {
        release(s);
        discard(s);
    }
done:
    return st;
}

int clcnn_state_count(const struct clcnn_state *s)
{
    return s->count;
}

const struct clcnn_state_array *clcnn_state_get(const struct clcnn_state *s, int i)
{
    return i >= 0 && i < s->count ? &s->array[i].info : NULL;
}

int clcnn_state_find(const struct clcnn_state *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->array[i].info.name, name) == 0)
            return i;
    return -1;
}

/* ---- turns ----------------------------------------------------------------------------------------------------- */

static void forget_late(struct clcnn_state *s)
{
    if (s->late == NULL)
        return;
    s->dev->api->clReleaseEvent(s->late);
    device_count(s->dev, -1);
    s->late = NULL;
}

static bool busy(struct clcnn_state *s)
{
    cl_int state = CL_COMPLETE, code;

    if (s->late == NULL)
        return false;
    CL_CODE(code, s->dev->api, clGetEventInfo, s->late, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
            &state, NULL);
    return code == CL_SUCCESS && state > CL_COMPLETE;
}

/* Once it is the caller's turn. */
static enum clcnn_status check(struct clcnn_state *s, bool run, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    TRY(device_enter(s->dev, err));
    if (atomic_load(&s->closed))
        return clcnn_fail(err, CLCNN_E_STATE, "the state is closed");
    if (busy(s))
        return clcnn_fail(err, CLCNN_E_STATE, "the state is still busy with a run that timed out");
    forget_late(s);
    for (int i = 0; run && i < s->count; i++)
        if (s->array[i].torn)
            return clcnn_fail(err, CLCNN_E_STATE,
                              "state %s: a step failed while it was written; write all arrays anew",
                              s->array[i].info.name);
done:
    return st;
}

enum clcnn_status state_enter(struct clcnn_state *s, bool run, const struct clcnn_patience *patience,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    TRY(device_enter(s->dev, err)); /* a forked child waits for no gate */
    TRY(gate_enter(&s->gate, patience, "another thread's run on this state", err));
    st = check(s, run, err);
    if (st != CLCNN_OK)
        gate_leave(&s->gate);
done:
    return st;
}

void state_leave(struct clcnn_state *s, const struct queue *q)
{
    for (int i = 0; q != NULL && q->broke && i < s->count; i++)
        s->array[i].torn = true;
    if (q != NULL && queue_stuck(q)) {
        s->late = q->chunk[q->chunks - 1].done;
        s->dev->api->clRetainEvent(s->late);
        device_count(s->dev, +1);
    }
    gate_leave(&s->gate);
}

/* ---- the host's side ------------------------------------------------------------------------------------------- */

static enum clcnn_status transfer_begin(struct clcnn_state *s, const struct clcnn_patience *patience,
                                        struct clcnn_err *err)
{
    enum clcnn_status st = state_enter(s, false, patience, err);

    if (st != CLCNN_OK)
        return st;
    st = device_pin(s->dev, err);
    if (st != CLCNN_OK)
        state_leave(s, NULL);
    return st;
}

static void transfer_end(struct clcnn_state *s)
{
    device_unpin(s->dev);
    state_leave(s, NULL);
}

enum clcnn_status clcnn_state_write(struct clcnn_state *s, int i, const void *src,
                                    const struct clcnn_patience *patience, struct clcnn_err *err)
{
    struct clcnn_device *dev = s->dev;
    enum clcnn_status st = transfer_begin(s, patience, err);

    if (st != CLCNN_OK)
        return st;
    CL_TRY(dev->api, clEnqueueWriteBuffer, dev->queue, s->array[i].memory.mem, CL_TRUE, 0,
           shape_bytes(&s->array[i].info.shape), src, 0, NULL, NULL);
    s->array[i].torn = false;
done:
    transfer_end(s);
    return st;
}

enum clcnn_status clcnn_state_read(struct clcnn_state *s, int i, void *dst,
                                   const struct clcnn_patience *patience, struct clcnn_err *err)
{
    struct clcnn_device *dev = s->dev;
    enum clcnn_status st = transfer_begin(s, patience, err);

    if (st != CLCNN_OK)
        return st;
    CL_TRY(dev->api, clEnqueueReadBuffer, dev->queue, s->array[i].memory.mem, CL_TRUE, 0,
           shape_bytes(&s->array[i].info.shape), dst, 0, NULL, NULL);
done:
    transfer_end(s);
    return st;
}

/* ---- its end --------------------------------------------------------------------------------------------------- */

enum clcnn_status clcnn_state_close(struct clcnn_state *s, const struct clcnn_patience *patience,
                                    struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (device_forked(s->dev)) { /* all that it has is the parent's */
        atomic_store(&s->closed, true);
        return CLCNN_OK;
    }
    TRY(gate_enter(&s->gate, patience, "another thread's run on this state", err));
    if (!atomic_load(&s->closed) &&
        !busy(s)) { /* else the device may write it for ever: leaking it is safe */
        forget_late(s);
        release(s);
    }
    atomic_store(&s->closed, true);
    gate_leave(&s->gate);
done:
    return st;
}

void clcnn_state_free(struct clcnn_state *s)
{
    if (s == NULL || device_forked(s->dev)) /* a thread that the child has not may have been at work on it */
        return;
    clcnn_state_close(s, NULL, NULL);
    discard(s);
}
