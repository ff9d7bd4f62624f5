/* transfer.c: copies on a queue, between host and device and within the device. Rows that lie apart on the device are
 * contiguous on the host; a row is one line of a Rect call, whose pitch is the stride. */
#include <string.h>

#include "runtime/runtime_private.h"

/* A GPU with memory of its own fetches pinned memory by itself, while the driver copies other memory piece by piece: for the
 * 600 KB of an image 20 us against 57 on an H200. So inputs are copied to pinned memory first, which the processor does at
 * several times the bus's speed while they fit its caches; larger ones are left to the driver. */
#define PINNED_BYTES ((size_t)4 << 20)
#define PINNED_LEAST ((size_t)16 << 10) /* less goes along with the command */
#define PINNED_ALIGN 4096

enum clcnn_status pinned_map(struct pinned *p, struct clcnn_device *dev, cl_command_queue cl,
                             cl_map_flags flags, size_t bytes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    struct pinned made = {.bytes = bytes};

    CL_MAKE(dev->api, made.mem, clCreateBuffer, dev->context, CL_MEM_ALLOC_HOST_PTR, bytes, NULL);
    CL_MAKE(dev->api, made.at, clEnqueueMapBuffer, cl, made.mem, CL_TRUE, flags, 0, bytes, 0, NULL, NULL);
    device_count(dev, +1);
    *p = made;
    return CLCNN_OK;
done:
    if (made.mem != NULL)
        dev->api->clReleaseMemObject(made.mem);
    return st;
}

void pinned_unmap(struct pinned *p, struct clcnn_device *dev, cl_command_queue cl)
{
    cl_int code;

    if (p->mem == NULL)
        return;
    CL_CODE(code, dev->api, clEnqueueUnmapMemObject, cl, p->mem, p->at, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        dev->api->clFinish(cl);
    dev->api->clReleaseMemObject(p->mem);
    device_count(dev, -1);
    *p = (struct pinned){.mem = NULL};
}

/* Fails for nobody: without pinned memory the driver copies as it does. */
static void pinned_create(struct queue *q)
{
    struct clcnn_err ignored = {CLCNN_OK};

    q->pinned.refused =
        pinned_map(&q->pinned, q->dev, q->cl, CL_MAP_WRITE, PINNED_BYTES, &ignored) != CLCNN_OK;
    clcnn_err_clear(&ignored);
}

/* Where the bytes are to be sent from: a pinned copy of them where that is faster and there is room. */
static const void *staged(struct queue *q, const void *src, size_t bytes)
{
    const struct clcnn_device_info *info = &q->dev->info;
    struct pinned *p = &q->pinned;
    const size_t at = round_up(p->used, PINNED_ALIGN);

    if (info->type != CLCNN_DEVICE_GPU || info->host_unified || bytes < PINNED_LEAST || p->refused ||
        at + bytes > PINNED_BYTES)
        return src;
    if (p->mem == NULL)
        pinned_create(q);
    if (p->refused)
        return src;
    p->used = at + bytes;
    return memcpy(p->at + at, src, bytes);
}

enum clcnn_status queue_write(struct queue *q, cl_mem dst, size_t offset, const void *src, size_t bytes,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    q->sent = true;
    src = staged(q, src, bytes);
    if (bytes > 0)
        CL_TRY(q->dev->api, clEnqueueWriteBuffer, q->cl, dst, CL_FALSE, offset, bytes, src, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_read(struct queue *q, cl_mem src, size_t offset, void *dst, size_t bytes,
                             struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    q->sent = true;
    if (bytes > 0)
        CL_TRY(q->dev->api, clEnqueueReadBuffer, q->cl, src, CL_FALSE, offset, bytes, dst, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_copy(struct queue *q, cl_mem src, size_t src_offset, cl_mem dst, size_t dst_offset,
                             size_t bytes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    q->sent = true;
    if (bytes > 0)
        CL_TRY(q->dev->api, clEnqueueCopyBuffer, q->cl, src, dst, src_offset, dst_offset, bytes, 0, NULL,
               NULL);
done:
    return st;
}

enum clcnn_status queue_write_rows(struct queue *q, cl_mem dst, size_t offset, size_t dst_stride,
                                   const void *src, size_t row_bytes, size_t rows, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const size_t at[3] = {offset, 0, 0}, host[3] = {0, 0, 0}, region[3] = {row_bytes, rows, 1};

    q->sent = true;
    if (row_bytes > 0 && rows > 0)
        CL_TRY(q->dev->api, clEnqueueWriteBufferRect, q->cl, dst, CL_FALSE, at, host, region, dst_stride, 0,
               row_bytes, 0, src, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_read_rows(struct queue *q, cl_mem src, size_t offset, size_t src_stride, void *dst,
                                  size_t row_bytes, size_t rows, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const size_t at[3] = {offset, 0, 0}, host[3] = {0, 0, 0}, region[3] = {row_bytes, rows, 1};

    q->sent = true;
    if (row_bytes > 0 && rows > 0)
        CL_TRY(q->dev->api, clEnqueueReadBufferRect, q->cl, src, CL_FALSE, at, host, region, src_stride, 0,
               row_bytes, 0, dst, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_copy_rows(struct queue *q, cl_mem src, size_t src_offset, size_t src_stride,
                                  cl_mem dst, size_t dst_offset, size_t dst_stride, size_t row_bytes,
                                  size_t rows, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const size_t from[3] = {src_offset, 0, 0}, to[3] = {dst_offset, 0, 0}, region[3] = {row_bytes, rows, 1};

    q->sent = true;
    if (row_bytes > 0 && rows > 0)
        CL_TRY(q->dev->api, clEnqueueCopyBufferRect, q->cl, src, dst, from, to, region, src_stride, 0,
               dst_stride, 0, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_show(struct queue *q, cl_mem mem, size_t bytes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;
    const cl_bool wait = driver_waits_for_maps(q->dev);
    void *at;

    if (driver_works_in_place(q->dev))
        return CLCNN_OK;
    CL_MAKE(q->dev->api, at, clEnqueueMapBuffer, q->cl, mem, wait, CL_MAP_READ, 0, bytes, 0, NULL, NULL);
    CL_TRY(q->dev->api, clEnqueueUnmapMemObject, q->cl, mem, at, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_finish(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    CL_TRY(q->dev->api, clFinish, q->cl);
    q->sent = false;
    queue_is_idle(q);
done:
    return st;
}
