/* binary_vector: element-wise functions of two broadcast arguments, and prelu, on vectors; see
 * kernels/elementwise/binary_vector.cl. */
#include "algos/elementwise/vector_rows.h"

#include <string.h>

/* Sizes from the right, as those of a map of `rank` dimensions. */
static void sizes_in(int32_t size[CLCNN_MAX_RANK], const struct op_def *op, const struct clcnn_shape *s,
                     int rank)
{
    const int before = op == &op_prelu && s->rank == 1 && rank > 1 ? 1 : rank - s->rank;
    for (int d = 0; d < rank; d++)
        size[d] = d < before || d - before >= s->rank ? 1 : s->dim[d - before];
}

enum operand_part operand_part(const struct op_def *op, const struct clcnn_shape *operand,
                               const struct clcnn_shape *map)
{
    int32_t size[CLCNN_MAX_RANK];
    bool pixels = true, pixel = true;

    if (operand->rank > map->rank)
        return PART_NONE;
    sizes_in(size, op, operand, map->rank);
    for (int d = 2; d < map->rank; d++) {
        pixels = pixels && size[d] == map->dim[d];
        pixel = pixel && size[d] == 1;
    }
    if (pixels && size[1] == map->dim[1] && operand->rank == map->rank)
        return PART_MAP;
    if (pixel)
        return size[1] == 1 ? PART_VALUE : PART_CHANNELS;
    return pixels && size[1] == 1 && operand->rank == map->rank ? PART_PIXELS : PART_NONE;
}

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
static void block_strides(const struct problem *p, int i, struct binary_vector_args *a)
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
    a->stride[i].of[0] = stride[0];
    a->stride[i].of[1] = part == PART_MAP ? a->inner : part == PART_CHANNELS ? p->block * stride[1] : 0;
}

static int64_t walk_blocks(const struct problem *p, struct binary_vector_args *a)
{
    const struct operand *y = &p->out[0];
    a->rank = 2;
    a->inner = shape_count_from(&y->shape, 2) * p->block;
    a->size[0] = y->shape.dim[0];
    a->size[1] = a->rows.blocks;
    a->stride[2].of[0] = y->batch_stride;
    a->stride[2].of[1] = a->inner;
    for (int i = 0; i < 2; i++)
        block_strides(p, i, a);
    return (int64_t)a->size[0] * a->size[1];
}

/* The rows that are left of a row-major walk when its last dimension is taken off; where that one has gaps a row is one element. */
static int64_t walk_rows(const struct problem *p, struct binary_vector_args *a)
{
    const struct operand *y = &p->out[0];
    struct strided_args s = {.rank = y->shape.rank};
    int64_t count = 1;

    memcpy(s.size, y->shape.dim, sizeof s.size);
    for (int i = 0; i < 2; i++)
        broadcast_strides(p, &p->in[i], s.stride[i].of);
    operand_strides(y, s.stride[2].of);
    strided_merge(&s, 3);
    const int last = s.rank - 1;
    const bool even = s.stride[0].of[last] <= 1 && s.stride[1].of[last] <= 1 && s.stride[2].of[last] == 1;
    a->rank = even ? last : s.rank;
    a->inner = even ? s.size[last] : 1;
    for (int i = 0; i < 2; i++)
        a->step[i] = even && s.stride[i].of[last] == 1 ? VECTOR_STEP : SAME_VALUE;
    memcpy(a->size, s.size, sizeof a->size);
    memcpy(a->stride, s.stride, sizeof a->stride);
    for (int d = 0; d < a->rank; d++)
        count *= a->size[d];
    return count;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct binary_vector_args a = {0};
    char identifier[40] = "bin_prelu";
    vector_channels(p, &a.rows);
    const int64_t count = p->out[0].block ? walk_blocks(p, &a) : walk_rows(p, &a);
    const size_t groups = vector_groups(p, &a.rows, count, a.inner);
    if (p->op != &op_prelu)
        eltwise_identifier(identifier, p->op, p->attrs, CLCNN_FLOAT32);
    struct step *s = vector_step(e, p, "binary_vector", groups, identifier);
    if (p->op == &op_pow && a.step[1] == SAME_VALUE)
        step_define(s, "POWER", 1);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

#define VECTOR_ALGO(op)                                                                              \
    const struct algo_def algo_##op##_vector = {                                                     \
        .name = "vector",                                                                            \
        .doc = "vector by vector, row-major or on channel blocks with a value a channel or a pixel", \
        .devices = DEVICES_CPU,                                                                      \
        .error = ERROR_STRICT,                                                                       \
        .deterministic = true,                                                                       \
        .src = LAYOUT_FOLLOWS,                                                                       \
        .dst = LAYOUT_FOLLOWS,                                                                       \
        .applicable = vector_applicable,                                                             \
        .emit = emit,                                                                                \
    }
VECTOR_ALGO(binary);
VECTOR_ALGO(prelu);
