/* io.c: inputs on their way to where a plan's steps read them, outputs on theirs to the caller. */
#include "plan/plan.h"

/* Where a run finds what steps read as this view: in the arena, unless it is a copy of a lent input. */
static struct place place_of_view(struct clcnn_plan *plan, const struct view *s)
{
    const struct blueprint *bp = plan->bp;
    if (s->storage < 0)
        return (struct place){.mem = s->state >= 0 ? bp->state->array[s->state].memory.mem
                                                   : bp->packed[s->packed].weight->memory.mem};
    const struct zero_copy *p = zero_copy_of_storage(plan, s->storage);
    if (p && p->copy.mem)
        return (struct place){.mem = p->copy.mem};
    return (struct place){.mem = plan->arena.mem, .offset = bp->storages[s->storage].offset};
}

struct place plan_place(struct clcnn_plan *plan, const struct io_view *io)
{
    const struct view *s = &plan->bp->views[io->view];
    const struct clcnn_shape *shape = &io->info.shape;
    const bool many = shape->rank >= 2 && shape->dim[0] > 1;
    const size_t elem = clcnn_dtype_bytes(shape->dtype);
    struct place x = place_of_view(plan, s);
    x.offset += (size_t)s->offset * elem;
    x.row = shape_bytes(shape);
    x.rows = 1;
    if (many && io->batch_stride != shape_count_from(shape, 1)) {
        x.rows = (size_t)shape->dim[0];
        x.row /= x.rows;
        x.stride = (size_t)io->batch_stride * elem;
    }
    return x;
}

/* The device works in the caller's memory already. */
static bool borrowed(struct clcnn_plan *plan, int io, bool output)
{
    const struct zero_copy *p = zero_copy_of_io(plan, io, output);
    return p && !p->copy.mem && (p->borrowed || p->host);
}

enum clcnn_status plan_send(struct clcnn_plan *plan, struct queue *q, int input, const struct clcnn_io *from,
                            struct clcnn_err *err)
{
    const struct place x = plan_place(plan, &plan->bp->inputs[input]);
    if (borrowed(plan, input, false))
        return CLCNN_OK;
    if (from->buffer && x.rows == 1)
        return queue_copy(q, from->buffer->memory.mem, from->offset, x.mem, x.offset, x.row, err);
    if (from->buffer)
        return queue_copy_rows(q, from->buffer->memory.mem, from->offset, x.row, x.mem, x.offset, x.stride,
                               x.row, x.rows, err);
    if (x.rows == 1)
        return queue_write(q, x.mem, x.offset, from->host, x.row, err);
    return queue_write_rows(q, x.mem, x.offset, x.stride, from->host, x.row, x.rows, err);
}

static enum clcnn_status fetch(struct clcnn_plan *plan, struct queue *q, const struct io_view *io,
                               const struct clcnn_io *to, struct clcnn_err *err)
{
    const struct place x = plan_place(plan, io);
    if (to->buffer && x.rows == 1)
        return queue_copy(q, x.mem, x.offset, to->buffer->memory.mem, to->offset, x.row, err);
    if (to->buffer)
        return queue_copy_rows(q, x.mem, x.offset, x.stride, to->buffer->memory.mem, to->offset, x.row, x.row,
                               x.rows, err);
    if (x.rows == 1)
        return queue_read(q, x.mem, x.offset, to->host, x.row, err);
    return queue_read_rows(q, x.mem, x.offset, x.stride, to->host, x.row, x.rows, err);
}

enum clcnn_status plan_fetch(struct clcnn_plan *plan, struct queue *q, int output, const struct clcnn_io *to,
                             struct clcnn_err *err)
{
    const struct io_view *io = &plan->bp->outputs[output];
    const struct zero_copy *p = zero_copy_of_io(plan, output, true);
    if (!borrowed(plan, output, true))
        return fetch(plan, q, io, to, err);
    return p->borrowed && !to->buffer ? queue_show(q, p->borrowed, shape_bytes(&io->info.shape), err)
                                      : CLCNN_OK;
}
