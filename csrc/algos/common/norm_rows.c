/* norm_rows.c: norms and softmax as rows, and how work-items share them; see norm_rows.h. */
#include "algos/common/norm_rows.h"

#include "algos/common/rows.h"

bool norm_is_rows(const struct problem *p)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    return norm_by_groups(p) || attrs->dim > 0 || attrs->dims == 1;
}

/* The norm's dimensions as rows (n, m) of elements x_step apart. */
static struct norm_vector_args dims_of(const struct problem *p)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int rank = x->shape.rank, dim = attrs->dim;
    const int64_t batch = rank > 1 && dim > 0 ? x->shape.dim[0] : 1;
    struct norm_vector_args a = {.inner = shape_count_from(&x->shape, dim + attrs->dims)};
    const bool apart = dim == 0 && rank > 1; /* elements are those of items */
    a.length = shape_count_from(&x->shape, dim) / a.inner;
    a.x_step = apart ? x->batch_stride : a.inner;
    a.y_step = apart ? y->batch_stride : a.inner;
    a.middle = shape_count(&x->shape) / batch / a.length / a.inner;
    a.middle_step = a.length * a.inner;
    a.rows = batch * a.middle;
    return a;
}

/* Groups of channels: a row each, in one piece. */
static struct norm_vector_args groups_of(const struct problem *p)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    const struct clcnn_shape *x = &p->in[0].shape;
    const int64_t groups = p->op == &op_instance_norm ? x->dim[1] : attrs->groups;
    struct norm_vector_args a = {.inner = 1, .x_step = 1, .y_step = 1};
    a.plane = shape_count_from(x, 2);
    a.channels = x->dim[1] / groups;
    a.middle = groups;
    a.length = a.middle_step = a.channels * a.plane;
    a.rows = x->dim[0] * groups;
    return a;
}

struct norm_vector_args norm_rows_of(const struct problem *p)
{
    struct norm_vector_args a = norm_by_groups(p) ? groups_of(p) : dims_of(p);
    a.eps = ((const struct rows_norm_attrs *)p->attrs)->eps;
    a.x_n = p->in[0].batch_stride;
    a.y_n = p->out[0].batch_stride;
    a.weight = norm_operand(p, 1) != VIEW_NONE;
    a.bias = norm_operand(p, 2) != VIEW_NONE;
    a.p0 = p->p0;
    a.p1 = p->p1;
    return a;
}

struct softmax_args softmax_rows_of(const struct problem *p)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int rank = x->shape.rank, dim = ((const struct dim_attrs *)p->attrs)->dim;
    struct softmax_args a = {.rows = 1, .inner = 1, .middle = 1, .x_step = 1, .y_step = 1, .length = 1};
    int64_t xs[CLCNN_MAX_RANK], ys[CLCNN_MAX_RANK];
    if (rank == 0) /* a single number */
        return a;
    operand_strides(x, xs);
    operand_strides(y, ys);
    a.length = x->shape.dim[dim];
    a.inner = shape_count_from(&x->shape, dim + 1);
    a.x_step = xs[dim];
    a.y_step = ys[dim];
    if (dim > 0) {
        a.x_n = xs[0];
        a.y_n = ys[0];
        a.middle_step = a.length * a.inner;
        for (int d = 1; d < dim; d++)
            a.middle *= x->shape.dim[d];
        a.rows = x->shape.dim[0] * a.middle;
    }
    return a;
}

/* ---- work-items that share rows ------------------------------------------------------------------------------- */

enum {
    LEAST_LANES = 8,
    KEPT = 16,
    MANY_KEPT = 32,
    LEAST_TILE = 4,
    WIDE_TILE = 32,
    KEPT_A_COLUMN = 2, /* of larger groups: what a work-item waits for at once by the columns of a tile */
    MOST_GROUP = 512
};

/* Whether a device runs groups twice as large, which kernels for one launch may be. */
static bool doubles(const struct problem *p, size_t group)
{
    return 2 * group <= MOST_GROUP && 2 * group <= p->device->max_group_size;
}

static struct lanes tiles_of(size_t group, int tile, int64_t inner, int64_t length)
{
    struct lanes l = {.columns = true, .lanes = (int)group / tile, .kept = KEPT, .group = group};
    if (length > l.lanes * l.kept)
        l.kept = MANY_KEPT;
    l.loops = length > l.lanes * l.kept;
    l.tiles = (int64_t)ceil_div((size_t)inner, (size_t)tile);
    return l;
}

struct lanes lanes_wide(const struct problem *p, int64_t inner, int64_t length)
{
    return tiles_of(any_group_size(p), WIDE_TILE, inner, length);
}

/* Narrow tiles give a column many work-items, with few elements each to wait for, and a map many groups; wide ones
 * read more neighbours at once. Columns that the narrowest would read twice get larger groups. */
static struct lanes columns_of(const struct problem *p, int64_t middle, int64_t inner, int64_t length)
{
    size_t group = any_group_size(p);
    const size_t units = device_units(p->device);
    int tile = (int)group;
    while (tile > LEAST_TILE && (length > (int64_t)group / tile * KEPT ||
                                 (size_t)middle * ceil_div((size_t)inner, (size_t)tile) < units))
        tile /= 2;
    while (length > (int64_t)group / tile * MANY_KEPT && doubles(p, group))
        group *= 2;
    return tiles_of(group, tile, inner, length);
}

struct lanes lanes_of(const struct problem *p, bool columns, int64_t middle, int64_t inner, int64_t length)
{
    if (columns)
        return columns_of(p, middle, inner, length);
    const int wg = (int)any_group_size(p);
    struct lanes l = {.lanes = wg < LEAST_LANES ? wg : LEAST_LANES, .kept = KEPT, .group = (size_t)wg};
    while (l.lanes < wg && length > l.lanes * l.kept) /* what they share goes through local memory */
        l.lanes *= 2;
    if (length > l.lanes * l.kept)
        l.kept = MANY_KEPT;
    l.loops = length > l.lanes * l.kept;
    return l;
}

void lanes_widen(const struct problem *p, struct lanes *l, int64_t rows, int64_t inner)
{
    size_t tile = l->group / (size_t)l->lanes;
    while (l->columns && tile < (size_t)l->kept / KEPT_A_COLUMN && (size_t)inner > 2 * tile &&
           doubles(p, l->group) &&
           (size_t)rows * ceil_div((size_t)inner, 2 * tile) >= device_units(p->device)) {
        tile *= 2;
        l->group *= 2;
        l->tiles = (int64_t)ceil_div((size_t)inner, tile);
    }
}

size_t lanes_groups(const struct lanes *l, int64_t rows)
{
    return l->columns ? (size_t)(rows * l->tiles) : ceil_div((size_t)rows, l->group / (size_t)l->lanes);
}

struct step *lanes_emit(struct emit *e, const char *file, const char *entry, size_t groups,
                        const struct lanes *l, int64_t length)
{
    struct step *s = emit_step(e, file, entry, groups, l->group);
    step_define(s, "COLUMNS", l->columns);
    step_define(s, "LANES", l->lanes);
    step_define(s, "KEPT", l->kept);
    step_define(s, "LOOPS", l->loops);
    step_define_id(s, "INDEX", groups * l->group <= UINT32_MAX && length <= UINT32_MAX ? "uint" : "ulong");
    return s;
}
