/* context.c: who may use a device, and who keeps its context alive. */
#include <unistd.h>

#include "runtime/runtime_private.h"

bool device_closed(const struct clcnn_device *dev)
{
    return __atomic_load_n(&dev->closed, __ATOMIC_ACQUIRE);
}

bool device_forked(const struct clcnn_device *dev)
{
    return dev->pid != getpid();
}

enum clcnn_status device_enter(const struct clcnn_device *dev, struct clcnn_err *err)
{
    if (device_forked(dev))
        return clcnn_fail(err, CLCNN_E_STATE,
                          "the device was opened in process %d and cannot be used in a forked child: use the "
                          "\"spawn\" start method and open it in the child",
                          (int)dev->pid);
    if (device_closed(dev))
        return clcnn_fail(err, CLCNN_E_STATE, "the device is closed");
    return CLCNN_OK;
}

bool device_has_clblast(const struct clcnn_device *dev)
{
    return dev->api->clblast != NULL;
}

/* With the lock held. Children (buffers, queues, kernels) keep the context; so does a call under way. Objects that a
 * stuck queue had to leave behind keep it for ever, which is what is wanted: the driver still uses it. */
static void release_own(struct clcnn_device *dev)
{
    const struct cl_api *api = dev->api;

    if (!dev->closed || dev->pins > 0 || dev->context == NULL || dev->stats.live_objects > OWN_OBJECTS)
        return;
    if (dev->used_clblast)
        api->CLBlastClearCache(); /* its programs would keep the context; other devices' are built again */
    api->clReleaseMemObject(dev->dummy);
    api->clReleaseCommandQueue(dev->queue);
    api->clReleaseContext(dev->context);
    dev->context = NULL;
    dev->stats.live_objects = 0;
}

void device_count(struct clcnn_device *dev, int objects)
{
    pthread_mutex_lock(&dev->lock);
    dev->stats.live_objects += (uint64_t)(int64_t)objects;
    release_own(dev);
    pthread_mutex_unlock(&dev->lock);
}

enum clcnn_status device_pin(struct clcnn_device *dev, struct clcnn_err *err)
{
    enum clcnn_status st = device_enter(dev, err);

    if (st != CLCNN_OK)
        return st;
    pthread_mutex_lock(&dev->lock);
    if (dev->closed)
        st = clcnn_fail(err, CLCNN_E_STATE, "the device is closed");
    else
        dev->pins++;
    pthread_mutex_unlock(&dev->lock);
    return st;
}

void device_unpin(struct clcnn_device *dev)
{
    if (device_forked(dev)) /* since device_pin() */
        return;
    pthread_mutex_lock(&dev->lock);
    dev->pins--;
    release_own(dev);
    pthread_mutex_unlock(&dev->lock);
}
