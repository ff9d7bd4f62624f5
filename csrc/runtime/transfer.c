/* transfer.c: copies on a queue, between host and device and within the device. Rows that lie apart on the device are
 * contiguous on the host; a row is one line of a Rect call, whose pitch is the stride. */
#include "runtime/room.h"

enum clcnn_status queue_write(struct queue *q, cl_mem dst, size_t offset, const void *src, size_t bytes,
                              struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (bytes > 0)
        CL_TRY(q->dev->api, clEnqueueWriteBuffer, q->cl, dst, CL_FALSE, offset, bytes, src, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_read(struct queue *q, cl_mem src, size_t offset, void *dst, size_t bytes,
                             struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    if (bytes > 0)
        CL_TRY(q->dev->api, clEnqueueReadBuffer, q->cl, src, CL_TRUE, offset, bytes, dst, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_copy(struct queue *q, cl_mem src, size_t src_offset, cl_mem dst, size_t dst_offset,
                             size_t bytes, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

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

    if (row_bytes > 0 && rows > 0)
        CL_TRY(q->dev->api, clEnqueueReadBufferRect, q->cl, src, CL_TRUE, at, host, region, src_stride, 0,
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

    if (row_bytes > 0 && rows > 0)
        CL_TRY(q->dev->api, clEnqueueCopyBufferRect, q->cl, src, dst, from, to, region, src_stride, 0,
               dst_stride, 0, 0, NULL, NULL);
done:
    return st;
}

enum clcnn_status queue_finish(struct queue *q, struct clcnn_err *err)
{
    enum clcnn_status st = CLCNN_OK;

    CL_TRY(q->dev->api, clFinish, q->cl);
done:
    return st;
}
