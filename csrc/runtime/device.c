/* device.c: opening, closing and asking a device. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime_private.h"

#define DUMMY_BYTES 64

/* The device's own OpenCL objects; on failure none of them is left. */
static enum clcnn_status create_own(struct clcnn_device *dev, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct cl_api *api = dev->api;

    /* No platform by name: a loader refuses one that it has not listed itself (driver_offer.c); the device has one. */
    CL_MAKE(api, dev->context, clCreateContext, NULL, 1, &dev->id, NULL, NULL);
    CL_MAKE(api, dev->queue, clCreateCommandQueue, dev->context, dev->id, 0);
    CL_MAKE(api, dev->dummy, clCreateBuffer, dev->context, CL_MEM_READ_WRITE, DUMMY_BYTES, NULL);
    dev->stats.live_objects = OWN_OBJECTS;
done:
    if (st != CLCNN_OK && dev->queue != NULL)
        api->clReleaseCommandQueue(dev->queue);
    if (st != CLCNN_OK && dev->context != NULL)
        api->clReleaseContext(dev->context);
    if (st != CLCNN_OK)
        dev->context = NULL;
    return st;
}

static enum clcnn_status set_options(struct clcnn_device *dev, const struct clcnn_device_options *options,
                                     struct clcnn_err *err)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);

    dev->build_threads = cores > 0 ? (int)cores : 1;
    if (options == NULL)
        return CLCNN_OK;
    if (options->build_threads < 0)
        return clcnn_fail(err, CLCNN_E_VALUE, "build_threads must be 0 or more, not %d",
                          options->build_threads);
    if (options->build_threads > 0)
        dev->build_threads = options->build_threads;
    dev->memory_limit = options->memory_limit;
    if (options->cache_dir != NULL)
        dev->cache_dir = clcnn_strdup(options->cache_dir);
    if (options->kernel_dir != NULL)
        dev->kernel_dir = clcnn_strdup(options->kernel_dir);
    if ((options->cache_dir != NULL && dev->cache_dir == NULL) ||
        (options->kernel_dir != NULL && dev->kernel_dir == NULL))
        return clcnn_fail_mem(err, CLCNN_NAME_MAX);
    return CLCNN_OK;
}

/* So many cores of a CPU device, as a device of its own. */
static enum clcnn_status limit_cores(struct clcnn_device *dev, int threads, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const cl_device_partition_property by_counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, threads,
                                                      CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};

    if (threads == 0)
        return CLCNN_OK;
    if (!cpu_device(&dev->info))
        return clcnn_fail(err, CLCNN_E_VALUE, "threads=%d: '%s' is no CPU device, and uses no cores", threads,
                          dev->info.name);
    if (threads < 0 || (uint32_t)threads > dev->info.compute_units)
        return clcnn_fail(err, CLCNN_E_VALUE, "threads must be 1 to %u, the cores of '%s', not %d",
                          dev->info.compute_units, dev->info.name, threads);
    if ((uint32_t)threads == dev->info.compute_units)
        return CLCNN_OK;
    CL_TRY(dev->api, clCreateSubDevices, dev->id, by_counts, 1, &dev->part, NULL);
    dev->id = dev->part;
    dev->info.compute_units = (uint32_t)threads;
done:
    return st;
}

enum clcnn_status clcnn_device_open(struct clcnn_device **out, const char *selector,
                                    const struct clcnn_device_options *options, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const struct cl_api *api = NULL;
    const struct device_entry *chosen = NULL;
    struct device_entry *entries = NULL;
    struct clcnn_device *dev = NULL;
    int count = 0;

    TRY(cl_api_get(&api, err));
    TRY(device_enumerate(&entries, &count, api, err));
    TRY(device_select(&chosen, entries, count, selector, err));
    dev = clcnn_calloc(1, sizeof *dev);
    if (dev == NULL) {
        st = clcnn_fail_mem(err, sizeof *dev);
        goto done;
    }
    pthread_mutex_init(&dev->lock, NULL);
    pthread_mutex_init(&dev->ahead.making, NULL);
    gate_init(&dev->weights_gate);
    dev->api = api;
    dev->info = chosen->info;
    dev->platform = chosen->platform;
    dev->id = chosen->id;
    dev->pid = getpid();
    TRY(set_options(dev, options, err));
    TRY(limit_cores(dev, options ? options->threads : 0, err));
    TRY(create_own(dev, err));
    *out = dev;
    dev = NULL;
done:
    clcnn_device_free(dev);
    free(entries);
    return st;
}

const struct clcnn_device_info *clcnn_device_get_info(const struct clcnn_device *dev)
{
    return &dev->info;
}

void clcnn_device_get_stats(struct clcnn_device *dev, struct clcnn_device_stats *out)
{
    const bool forked = device_forked(dev); /* the lock may have been held when the process was copied */

    if (!forked)
        pthread_mutex_lock(&dev->lock);
    *out = dev->stats;
    if (!forked)
        pthread_mutex_unlock(&dev->lock);
}

enum clcnn_status clcnn_device_finish(struct clcnn_device *dev, struct clcnn_err *err)
{
    enum clcnn_status st = device_pin(dev, err);

    if (st != CLCNN_OK)
        return st;
    CL_TRY(dev->api, clFinish, dev->queue);
done:
    device_unpin(dev);
    return st;
}

void clcnn_device_close(struct clcnn_device *dev)
{
    if (dev == NULL || device_forked(dev) || device_closed(dev))
        return;
    pthread_mutex_lock(&dev->lock);
    __atomic_store_n(&dev->closed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&dev->lock);
    programs_drop_idle(dev, 0);
    device_count(dev, 0);
}

void clcnn_device_free(struct clcnn_device *dev)
{
    if (dev == NULL)
        return;
    clcnn_device_close(dev);
    if (dev->part != NULL && !device_forked(dev))
        dev->api->clReleaseDevice(dev->part);
    if (!device_forked(dev)) {
        crew_free(dev->crew);
        large_pages_close(&dev->slabs);
        pthread_mutex_destroy(&dev->lock);
        pthread_mutex_destroy(&dev->ahead.making);
        gate_destroy(&dev->weights_gate);
    }
    free(dev->ahead.noted.at);
    free(dev->cache_dir);
    free(dev->kernel_dir);
    free(dev);
}
