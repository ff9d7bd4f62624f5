/* rows.c: cutting tensors into rows, and merging dimensions; see rows.h. */
#include "algos/common/rows.h"

enum {
    CPU_ELEMS = 64, /* a run is one vector loop; groups of one work-item are what a CPU's chains take */
    GPU_ELEMS = 4,
};

bool rows_always(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

static size_t rows_units(const struct problem *p)
{
    return device_units(p->device);
}

/* Work-items for a row: one of few sizes, so that programs are shared. */
static int rows_lanes(int64_t wanted, const int *choices, int count)
{
    for (int i = 0; i < count; i++)
        if (wanted <= choices[i])
            return choices[i];
    return choices[count - 1];
}

struct step *rows_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                       int64_t rows, int64_t inner, i64 *pieces)
{
    const size_t total = (size_t)rows * (size_t)inner, units = rows_units(p);
    const bool cpu = cpu_device(p->device);
    int wg = (int)any_group_size(p), elems = 1, lanes;
    const int gpu_lanes[] = {1, 4, 32, 64, wg};

    if (cpu) {
        wg = lanes = 1;
        elems = CPU_ELEMS;
    } else {
        if (total >= units * GPU_RESIDENT * GPU_ELEMS)
            elems = GPU_ELEMS;
        lanes = rows_lanes((inner + elems - 1) / elems, gpu_lanes, COUNT_OF(gpu_lanes));
    }
    *pieces = (int64_t)ceil_div((size_t)inner, (size_t)lanes * elems);
    const size_t groups = ceil_div((size_t)rows, wg / lanes) * (size_t)*pieces;

    struct step *s = emit_step(e, file, entry, groups, wg);
    step_define(s, "LANES", lanes);
    step_define(s, "ELEMS", elems);
    step_define(s, "RUNS", cpu);
    step_define_id(s, "INDEX", groups <= UINT32_MAX / GROUP_SIZE ? "uint" : "ulong");
    return s;
}

struct step *lanes_step(struct emit *e, const struct problem *p, const char *file, const char *entry,
                        int64_t rows, int64_t length)
{
    int wg = (int)any_group_size(p), lanes = 1;
    const int gpu_lanes[] = {1, 32, wg};

    if (cpu_device(p->device))
        wg = 1;
    else
        lanes = rows_lanes(length < 8 ? 1 : length <= 2048 ? 32 : wg, gpu_lanes, COUNT_OF(gpu_lanes));
    struct step *s = emit_step(e, file, entry, ceil_div((size_t)rows, wg / lanes), wg);
    step_define(s, "LANES", lanes);
    return s;
}

int rows_vector(const struct problem *p, int64_t side_by_side)
{
    return side_by_side >= p->block ? p->block : 8;
}

void rows_cost(struct step *s, const struct problem *p, double macs)
{
    double bytes = 0;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i].present)
            bytes += (double)shape_bytes(&p->in[i].shape);
    for (int i = 0; i < p->n_out; i++)
        if (p->out[i].present)
            bytes += (double)shape_bytes(&p->out[i].shape);
    if (p->add.present)
        bytes += (double)shape_bytes(&p->add.shape);
    step_cost(s, macs, bytes);
}

void operand_strides(const struct operand *o, int64_t stride[CLCNN_MAX_RANK])
{
    int64_t step = 1;
    for (int d = o->shape.rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= o->shape.dim[d];
    }
    if (o->shape.rank > 1)
        stride[0] = o->batch_stride;
}

void operand_broadcast(const struct operand *o, const struct clcnn_shape *to, int64_t stride[CLCNN_MAX_RANK])
{
    int64_t own[CLCNN_MAX_RANK];
    operand_strides(o, own);
    for (int d = 0; d < to->rank; d++) {
        const int from = d - (to->rank - o->shape.rank);
        stride[d] = from < 0 || o->shape.dim[from] == 1 ? 0 : own[from];
    }
}

void operand_view_strides(const struct operand_view *view, const struct operand *o, int count, i64 *out)
{
    for (int i = 0; i < count; i++)
        out[i] = view->items[i] * o->batch_stride + view->elements[i];
}

struct items operand_items(const struct operand *o)
{
    const int64_t all = shape_count(&o->shape);
    if (o->shape.rank < 2 || operand_dense(o))
        return (struct items){1, all, all};
    return (struct items){o->shape.dim[0], shape_count_from(&o->shape, 1), o->batch_stride};
}

struct channel_args channel_args_of(const struct problem *p, int channel_dim)
{
    const struct operand *y = &p->out[0];
    const struct clcnn_shape *shape = &y->shape;
    const bool plane = channel_dim < shape->rank - 1 && shape_count_from(shape, channel_dim + 1) > 1;
    const int64_t batch = shape->rank > 1 ? shape->dim[0] : 1;
    struct channel_args a = {
        .y_n = y->batch_stride,
        .add_n = p->add.batch_stride,
        .row_step = plane,
        .column_step = !plane,
        .inner = plane              ? shape_count_from(shape, channel_dim + 1)
                 : channel_dim >= 0 ? shape->dim[channel_dim]
                                    : 1,
        .p0 = p->p0,
        .p1 = p->p1,
    };
    a.rows = shape_count(shape) / a.inner;
    a.per_item = a.rows / batch;
    return a;
}

static bool dims_join(const int32_t *size, int64_t (*stride)[CLCNN_MAX_RANK], int operands, int outer,
                      int inner)
{
    if ((int64_t)size[outer] * size[inner] > INT32_MAX)
        return false;
    for (int i = 0; i < operands; i++)
        if (stride[i][outer] != stride[i][inner] * size[inner])
            return false;
    return true;
}

int merge_dims(int rank, int32_t *size, int64_t (*stride)[CLCNN_MAX_RANK], int operands)
{
    int last = -1; /* dimension that the next one may join */
    for (int d = 0; d < rank; d++) {
        if (size[d] == 1)
            continue;
        const bool joins = last >= 0 && dims_join(size, stride, operands, last, d);
        if (!joins)
            last++;
        size[last] = joins ? size[last] * size[d] : size[d];
        for (int i = 0; i < operands; i++)
            stride[i][last] = stride[i][d];
    }
    if (last < 0) { /* a single element */
        last = 0;
        size[0] = 1;
        for (int i = 0; i < operands; i++)
            stride[i][0] = 1;
    }
    return last + 1;
}

void strided_merge(struct strided_args *a, int operands)
{
    a->rank = merge_dims(a->rank, a->size, (int64_t(*)[CLCNN_MAX_RANK])a->stride, operands);
}

int strided_contiguous_dim(const struct strided_args *a)
{
    for (int d = 0; d < a->rank; d++)
        if (a->stride[0].of[d] == 1)
            return d;
    return a->rank - 1;
}

struct step *strided_step(struct emit *e, const struct problem *p, const char *file, struct strided_args *a,
                          int operands)
{
    strided_merge(a, operands);
    const int inner = a->rank - 1;
    a->rows = 1;
    for (int d = 0; d < inner; d++)
        a->rows *= a->size[d];
    struct step *s = rows_step(e, p, file, "main", a->rows, a->size[inner], &a->pieces);
    static const char *const name[] = {"STEP0", "STEP1", "STEP2", "STEP3"};
    for (int i = 0; i < operands; i++) {
        const int64_t step = a->stride[i].of[inner];
        step_define(s, name[i], step == 0 || step == 1 ? (int)step : 2);
    }
    return s;
}

void norm_epilogue(struct step *s, const struct problem *p)
{
    step_define(s, "EPI_ADD", epilogue_add(p));
    step_define_id(s, "EPI_ACT", act_identifier(p->act));
    if (p->add.present && p->add.fp16)
        step_define(s, "ADD_HALF", 1);
    step_read_added(s, p);
}
