/* buffer.c: device memory, counted against the device's limit; and the public buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime_private.h"

#define MIN_BYTES 64 /* OpenCL has no empty buffers */
#define LARGE_BYTES ((size_t)1 << 20)
#define SHARED_BYTES ((size_t)1 << 16) /* from which on buffers lie in pages of our own, if they can */

static const char *bytes_text(uint64_t bytes, char buf[64])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double scaled = (double)bytes;
    int unit = 0;

    for (; scaled >= 1024.0 && unit < COUNT_OF(units) - 1; unit++)
        scaled /= 1024.0;
    snprintf(buf, 64, unit > 0 ? "%.2f %s" : "%.0f %s", scaled, units[unit]);
    return buf;
}

/* "arena of the plan: 3.00 GiB of device memory: <why>; 1.00 GiB in use, limit none, the device has 2.00 GiB". */
static enum clcnn_status memory_fail(struct clcnn_err *err, const struct clcnn_device *dev, const char *what,
                                     size_t bytes, uint64_t in_use, const char *why)
{
    char asked[64], used[64], limit[64], total[64];

    return clcnn_fail(err, CLCNN_E_DEVICE_MEM,
                      "%s: %s of device memory asked, %s; %s in use, limit %s, device '%s' has %s", what,
                      bytes_text(bytes, asked), why, bytes_text(in_use, used),
                      dev->memory_limit > 0 ? bytes_text(dev->memory_limit, limit) : "none", dev->info.name,
                      bytes_text(dev->info.global_mem_bytes, total));
}

/* Counts the bytes before they are asked for, so that threads cannot exceed the limit together. */
static enum clcnn_status reserve(struct clcnn_device *dev, size_t bytes, const char *what,
                                 struct clcnn_err *err)
{
    const uint64_t largest = dev->info.max_alloc_bytes;
    char text[64], why[128];
    uint64_t in_use;
    bool over;

    pthread_mutex_lock(&dev->lock);
    in_use = dev->stats.bytes_now;
    over = dev->memory_limit > 0 && (bytes > dev->memory_limit || in_use > dev->memory_limit - bytes);
    if (!over && (largest == 0 || bytes <= largest))
        dev->stats.bytes_now += bytes;
    pthread_mutex_unlock(&dev->lock);
    if (over)
        return memory_fail(err, dev, what, bytes, in_use, "more than the memory limit leaves");
    if (largest > 0 && bytes > largest) {
        snprintf(why, sizeof why, "more than one buffer may have (%s)", bytes_text(largest, text));
        return memory_fail(err, dev, what, bytes, in_use, why);
    }
    return CLCNN_OK;
}

static void settle(struct clcnn_device *dev, size_t bytes, bool created)
{
    pthread_mutex_lock(&dev->lock);
    if (!created)
        dev->stats.bytes_now -= bytes;
    else if (dev->stats.bytes_now > dev->stats.bytes_peak)
        dev->stats.bytes_peak = dev->stats.bytes_now;
    pthread_mutex_unlock(&dev->lock);
}

/* GPU drivers allocate at the first use; a small read makes that happen here, where the error can say what it was. (A
 * write would do as well, but Oclgrind takes all of a buffer for uninitialised but what the last write has covered.) */
static cl_int touch(struct clcnn_device *dev, cl_mem mem)
{
    cl_uint ignored;
    cl_int code = CL_SUCCESS;

    if (cpu_device(&dev->info))
        return CL_SUCCESS;
    CL_CODE(code, dev->api, clEnqueueReadBuffer, dev->queue, mem, CL_TRUE, 0, sizeof ignored, &ignored, 0,
            NULL, NULL);
    return code;
}

/* Of the driver's own memory, on devices that work in the host's: pages of 2 MiB. A tile reads a line of each of 50 planes, and where small pages come to
 * lie decides whether those share sets of a core's cache. A failure costs speed only. */
static enum clcnn_status use_large_pages(struct clcnn_device *dev, cl_mem mem, size_t bytes)
{
    struct clcnn_err *const err = NULL;
    enum clcnn_status st = CLCNN_OK;
    void *at;

    if (!cpu_device(&dev->info) || !dev->info.host_unified || bytes < LARGE_BYTES)
        return CLCNN_OK;
    CL_MAKE(dev->api, at, clEnqueueMapBuffer, dev->queue, mem, CL_TRUE, CL_MAP_READ, 0, bytes, 0, NULL, NULL);
    alloc_use_large_pages(at, bytes);
    CL_TRY(dev->api, clEnqueueUnmapMemObject, dev->queue, mem, at, 0, NULL, NULL);
    CL_TRY(dev->api, clFinish, dev->queue);
done:
    return st;
}

/* Pages under a buffer, which are freed with it: commands that run may hold it for longer than we do. */
struct pages {
    struct slab *slab;
    void *block;
    size_t bytes;
};

static void CL_CALLBACK free_pages(cl_mem mem, void *data)
{
    struct pages *pages = data;

    (void)mem;
    large_pages_free(pages->slab, pages->block, pages->bytes);
    free(pages);
}

/* A buffer in large pages, which networks whose weights leave the caches are 1.05 to 1.16 times as fast with (D-145). NULL where that
 * cannot be. */
static cl_mem create_in_pages(struct clcnn_device *dev, size_t bytes)
{
    const struct cl_api *api = dev->api;
    struct pages *pages;
    cl_mem mem = NULL;
    cl_int code;

    if (!device_traits(&dev->info).shares_pages || bytes < SHARED_BYTES)
        return NULL;
    pages = clcnn_calloc(1, sizeof *pages);
    if (pages == NULL)
        return NULL;
    pages->bytes = bytes;
    pthread_mutex_lock(&dev->lock);
    pages->block = large_pages_alloc(&dev->slabs, bytes, &pages->slab);
    pthread_mutex_unlock(&dev->lock);
    if (pages->block != NULL)
        mem = api->clCreateBuffer(dev->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, pages->block,
                                  &code);
    code = cl_fault("clSetMemObjectDestructorCallback");
    if (mem != NULL && code == CL_SUCCESS)
        code = api->clSetMemObjectDestructorCallback(mem, free_pages, pages);
    if (mem != NULL && code == CL_SUCCESS)
        return mem;
    if (mem != NULL)
        api->clReleaseMemObject(mem);
    if (pages->block != NULL)
        large_pages_free(pages->slab, pages->block, bytes);
    free(pages);
    return NULL;
}

static bool is_memory_code(cl_int code)
{
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
           code == CL_INVALID_BUFFER_SIZE;
}

enum clcnn_status memory_create(struct memory *out, struct clcnn_device *dev, size_t bytes, const char *what,
                                struct clcnn_err *err)
{
    const size_t size = bytes > MIN_BYTES ? bytes : MIN_BYTES;
    const char *call = "clCreateBuffer";
    enum clcnn_status st = device_pin(dev, err);
    cl_mem mem = NULL;
    cl_int code;
    uint64_t in_use;

    if (st != CLCNN_OK)
        return st;
    TRY(reserve(dev, size, what, err));
    code = cl_fault(call);
    if (code == CL_SUCCESS)
        mem = create_in_pages(dev, size);
    const bool in_pages = mem != NULL;
    if (code == CL_SUCCESS && !in_pages)
        mem = dev->api->clCreateBuffer(dev->context, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code == CL_SUCCESS) {
        call = "clEnqueueWriteBuffer";
        code = touch(dev, mem);
    }
    if (code == CL_SUCCESS && !in_pages)
        (void)use_large_pages(dev, mem, size);
    settle(dev, size, code == CL_SUCCESS);
    if (code == CL_SUCCESS) {
        device_count(dev, +1);
        *out = (struct memory){.mem = mem, .bytes = size};
        goto done;
    }
    if (mem != NULL)
        dev->api->clReleaseMemObject(mem);
    st = cl_fail(err, call, code);
    if (is_memory_code(code)) {
        pthread_mutex_lock(&dev->lock);
        in_use = dev->stats.bytes_now;
        pthread_mutex_unlock(&dev->lock);
        st = memory_fail(err, dev, what, size, in_use, "which the driver refused");
        if (err != NULL) {
            err->cl_code = code;
            err->call = call;
        }
    }
done:
    device_unpin(dev);
    return st;
}

void memory_release(struct memory *m, struct clcnn_device *dev)
{
    if (m->mem == NULL || device_forked(dev))
        return;
    dev->api->clReleaseMemObject(m->mem);
    settle(dev, m->bytes, false);
    device_count(dev, -1);
    *m = (struct memory){.mem = NULL};
}

enum clcnn_status memory_part(cl_mem *out, struct clcnn_device *dev, cl_mem whole, size_t offset,
                              size_t bytes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const cl_buffer_region region = {.origin = offset, .size = bytes};

    CL_MAKE(dev->api, *out, clCreateSubBuffer, whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
            &region);
    device_count(dev, +1);
done:
    return st;
}

void memory_borrow(cl_mem *out, struct clcnn_device *dev, void *host, size_t bytes, bool written)
{
    const cl_mem_flags access = written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
    cl_int code = cl_fault("clCreateBuffer");

    *out = NULL;
    if (code == CL_SUCCESS)
        *out = dev->api->clCreateBuffer(dev->context, access | CL_MEM_USE_HOST_PTR, bytes, host, &code);
    if (code == CL_SUCCESS)
        device_count(dev, +1);
    else
        *out = NULL;
}

void memory_return(cl_mem *mem, struct clcnn_device *dev)
{
    if (*mem == NULL || device_forked(dev))
        return;
    dev->api->clReleaseMemObject(*mem);
    device_count(dev, -1);
    *mem = NULL;
}

enum clcnn_status memory_address(void **out, struct clcnn_device *dev, cl_mem mem, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    CL_MAKE(dev->api, *out, clEnqueueMapBuffer, dev->queue, mem, CL_TRUE, CL_MAP_READ, 0, 1, 0, NULL, NULL);
    CL_TRY(dev->api, clEnqueueUnmapMemObject, dev->queue, mem, *out, 0, NULL, NULL);
    CL_TRY(dev->api, clFinish, dev->queue);
done:
    return st;
}

enum clcnn_status buffer_address(void **out, struct clcnn_buffer *buf, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    *out = atomic_load(&buf->address);
    if (*out == NULL) {
        TRY(memory_address(out, buf->dev, buf->memory.mem, err));
        atomic_store(&buf->address, *out);
    }
done:
    return st;
}

/* ---- public buffers -------------------------------------------------------------------------------------------- */

enum clcnn_status clcnn_buffer_create(struct clcnn_buffer **out, struct clcnn_device *dev, size_t bytes,
                                      struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct clcnn_buffer *buf = clcnn_calloc(1, sizeof *buf);

    if (buf == NULL)
        return clcnn_fail_mem(err, sizeof *buf);
    buf->dev = dev;
    buf->bytes = bytes;
    TRY(memory_create(&buf->memory, dev, bytes, "buffer", err));
    *out = buf;
    buf = NULL;
done:
    free(buf);
    return st;
}

/* Holds the memory and the device over a transfer, whatever other threads close meanwhile. */
static enum clcnn_status transfer_begin(cl_mem *mem, struct clcnn_buffer *buf, size_t offset, size_t bytes,
                                        struct clcnn_err *err)
{
    struct clcnn_device *dev = buf->dev;
    enum clcnn_status st = device_pin(dev, err);

    if (st != CLCNN_OK)
        return st;
    pthread_mutex_lock(&dev->lock);
    if (buf->closed)
        st = clcnn_fail(err, CLCNN_E_STATE, "the buffer is closed");
    else if (offset > buf->bytes || bytes > buf->bytes - offset)
        st = clcnn_fail(err, CLCNN_E_VALUE, "%zu bytes at offset %zu do not fit a buffer of %zu bytes", bytes,
                        offset, buf->bytes);
    else
        dev->api->clRetainMemObject(*mem = buf->memory.mem);
    pthread_mutex_unlock(&dev->lock);
    if (st != CLCNN_OK)
        device_unpin(dev);
    return st;
}

enum clcnn_status buffer_hold(cl_mem *out, struct clcnn_buffer *buf, size_t bytes, struct clcnn_err *err)
{
    const enum clcnn_status st = transfer_begin(out, buf, 0, bytes, err);

    if (st != CLCNN_OK)
        return st;
    device_count(buf->dev, +1);
    device_unpin(buf->dev);
    return st;
}

static void transfer_end(struct clcnn_device *dev, cl_mem mem)
{
    dev->api->clReleaseMemObject(mem);
    device_unpin(dev);
}

enum clcnn_status clcnn_buffer_write(struct clcnn_buffer *buf, size_t offset, const void *src, size_t bytes,
                                     struct clcnn_err *err)
{
    struct clcnn_device *dev = buf->dev;
    cl_mem mem = NULL;
    enum clcnn_status st = transfer_begin(&mem, buf, offset, bytes, err);

    if (st != CLCNN_OK)
        return st;
    if (bytes > 0)
        CL_TRY(dev->api, clEnqueueWriteBuffer, dev->queue, mem, CL_TRUE, offset, bytes, src, 0, NULL, NULL);
done:
    transfer_end(dev, mem);
    return st;
}

enum clcnn_status clcnn_buffer_read(struct clcnn_buffer *buf, size_t offset, void *dst, size_t bytes,
                                    struct clcnn_err *err)
{
    struct clcnn_device *dev = buf->dev;
    cl_mem mem = NULL;
    enum clcnn_status st = transfer_begin(&mem, buf, offset, bytes, err);

    if (st != CLCNN_OK)
        return st;
    if (bytes > 0)
        CL_TRY(dev->api, clEnqueueReadBuffer, dev->queue, mem, CL_TRUE, offset, bytes, dst, 0, NULL, NULL);
done:
    transfer_end(dev, mem);
    return st;
}

size_t clcnn_buffer_bytes(const struct clcnn_buffer *buf)
{
    return buf->bytes;
}

void clcnn_buffer_close(struct clcnn_buffer *buf)
{
    struct memory memory;

    if (buf == NULL || device_forked(buf->dev))
        return;
    pthread_mutex_lock(&buf->dev->lock);
    memory = buf->memory;
    buf->memory = (struct memory){.mem = NULL};
    buf->closed = true;
    pthread_mutex_unlock(&buf->dev->lock);
    memory_release(&memory, buf->dev);
}

void clcnn_buffer_free(struct clcnn_buffer *buf)
{
    clcnn_buffer_close(buf);
    free(buf);
}
