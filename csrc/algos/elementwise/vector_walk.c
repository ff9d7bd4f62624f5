/* vector_walk.c: operands that are broadcast to a result, vector by vector; see kernels/elementwise/vector_walk.clh. */
#include "algos/elementwise/vector_rows.h"

#include <string.h>

void broadcast_strides(const struct problem *p, const struct operand *o, int64_t stride[CLCNN_MAX_RANK])
{
    const struct clcnn_shape *y = &p->out[0].shape;
    operand_broadcast(o, y, stride);
    if (p->op != &op_prelu || o->shape.rank != 1 || y->rank < 2)
        return;
    memset(stride, 0, sizeof(int64_t) * CLCNN_MAX_RANK);
    stride[1] = o->shape.dim[0] > 1;
}

/* A walk on channel blocks: items, then blocks; a row is all pixels of a block. */
static void block_strides(const struct problem *p, int i, struct vector_walk *a)
{
    static const enum vector_step step[] = {[PART_MAP] = VECTOR_STEP,
                                            [PART_CHANNELS] = SAME_VECTOR,
                                            [PART_PIXELS] = EACH_VALUE,
                                            [PART_VALUE] = SAME_VALUE};
    const enum operand_part part = operand_part(p->op, &p->in[i].shape, &p->out[0].shape);
    int64_t stride[CLCNN_MAX_RANK];
    broadcast_strides(p, &p->in[i], stride);
    a->step[i] = step[part];
    a->channel_step[i] = stride[1];
    a->stride[i][0] = stride[0];
    a->stride[i][1] = part == PART_MAP ? a->inner : part == PART_CHANNELS ? p->block * stride[1] : 0;
}

static int64_t walk_blocks(const struct problem *p, struct vector_walk *a)
{
    const struct operand *y = &p->out[0];
    a->rank = 2;
    a->inner = shape_count_from(&y->shape, 2) * p->block;
    a->size[0] = y->shape.dim[0];
    a->size[1] = a->rows.blocks;
    a->stride[VECTOR_INPUTS][0] = y->batch_stride;
    a->stride[VECTOR_INPUTS][1] = a->inner;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present)
            block_strides(p, i, a);
    return (int64_t)a->size[0] * a->size[1];
}

/* The rows that are left of a row-major walk when its last dimension is taken off; where that one has gaps a row is one element. */
static int64_t walk_rows(const struct problem *p, struct vector_walk *a)
{
    const struct operand *y = &p->out[0];
    int64_t(*stride)[CLCNN_MAX_RANK] = a->stride, count = 1;

    memcpy(a->size, y->shape.dim, sizeof a->size);
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present)
            broadcast_strides(p, &p->in[i], stride[i]);
    operand_strides(y, stride[VECTOR_INPUTS]);
    const int rank = merge_dims(y->shape.rank, a->size, stride, VECTOR_INPUTS + 1), last = rank - 1;
    bool even = stride[VECTOR_INPUTS][last] == 1;
    for (int i = 0; i < p->n_in; i++)
        even = even && stride[i][last] <= 1;
    a->rank = even ? last : rank;
    a->inner = even ? a->size[last] : 1;
    for (int i = 0; i < p->n_in; i++)
        a->step[i] = even && stride[i][last] == 1 ? VECTOR_STEP : SAME_VALUE;
    for (int d = 0; d < a->rank; d++)
        count *= a->size[d];
    return count;
}

size_t vector_walk_of(const struct problem *p, struct vector_walk *a)
{
    *a = (struct vector_walk){0};
    vector_channels(p, &a->rows);
    const int64_t count = p->out[0].block ? walk_blocks(p, a) : walk_rows(p, a);
    return vector_groups(p, &a->rows, count, a->inner);
}
