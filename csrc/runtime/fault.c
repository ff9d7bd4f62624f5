/* fault.c: makes OpenCL and CLBlast calls fail, for tests. CLCNN_FAULT="name:nth:code" makes the nth call of that
 * function ("*" counts all functions) return `code`, and "name:-nth:code" all from the nth on, counted from the last time a device was listed or opened. This is
 * the only mutable state of the runtime that belongs to no handle; without the variable a call costs one load. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool armed;
static struct {
    char name[48];
    long nth, calls;
    int code;
} fault;

void cl_fault_arm(void)
{
    const char *text = getenv("CLCNN_FAULT");

    pthread_mutex_lock(&lock);
    fault.calls = 0;
    atomic_store(&armed,
                 text != NULL && sscanf(text, "%47[^:]:%ld:%d", fault.name, &fault.nth, &fault.code) == 3);
    pthread_mutex_unlock(&lock);
}

cl_int cl_fault(const char *name)
{
    cl_int code = CL_SUCCESS;

    if (!atomic_load_explicit(&armed, memory_order_relaxed))
        return CL_SUCCESS;
    pthread_mutex_lock(&lock);
    if (strcmp(fault.name, "*") == 0 || strcmp(fault.name, name) == 0) {
        fault.calls++;
        if (fault.calls == fault.nth || (fault.nth < 0 && fault.calls >= -fault.nth))
            code = fault.code;
    }
    pthread_mutex_unlock(&lock);
    return code;
}
