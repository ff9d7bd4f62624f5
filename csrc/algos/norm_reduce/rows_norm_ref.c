/* rows_norm_ref: instance, group and layer norm; see kernels/norm_reduce/rows_norm_ref.cl. */
#include "algos/common/rows.h"

static void emit_with(const struct problem *p, struct emit *e, struct rows_norm_args *a)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    a->eps = attrs->eps;
    struct step *s = lanes_step(e, p, "rows_norm_ref", "main", a->rows, a->parts * a->length);
    step_define(s, "WEIGHT", p->in[1].present);
    step_define(s, "BIAS", p->in[2].present);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].present ? p->in[1].view : VIEW_NONE);
    step_read(s, p->in[2].present ? p->in[2].view : VIEW_NONE);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 2 * (double)shape_count(&p->in[0].shape));
}

/* `groups` rows an item, each of some whole channels. */
static void emit_groups(const struct problem *p, struct emit *e, int64_t groups)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int64_t plane = shape_count_from(&x->shape, 2), channels = x->shape.dim[1] / groups;
    struct rows_norm_args a = {
        .rows = x->shape.dim[0] * groups,
        .per_item = groups,
        .parts = 1,
        .length = channels * plane,
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .row_step = channels,
        .run = plane,
    };
    emit_with(p, e, &a);
}

static void emit_instance(const struct problem *p, struct emit *e)
{
    emit_groups(p, e, p->in[0].shape.dim[1]);
}

static void emit_group(const struct problem *p, struct emit *e)
{
    emit_groups(p, e, ((const struct rows_norm_attrs *)p->attrs)->groups);
}

/* From dimension 0 on all of x is one row, whose items may lie apart. */
static void emit_layer(const struct problem *p, struct emit *e)
{
    const int dim = ((const struct rows_norm_attrs *)p->attrs)->dim;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const bool whole = dim == 0 && x->shape.rank > 1;
    const int64_t item = x->shape.rank > 1 ? shape_count_from(&x->shape, 1) : shape_count(&x->shape);
    struct rows_norm_args a = {
        .rows = shape_count(&x->shape) / shape_count_from(&x->shape, dim),
        .parts = whole ? x->shape.dim[0] : 1,
        .length = whole ? item : shape_count_from(&x->shape, dim),
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .x_part = x->batch_stride,
        .y_part = y->batch_stride,
        .run = 1,
    };
    a.per_item = dim == 0 ? 1 : item / a.length;
    emit_with(p, e, &a);
}

#define NORM_ALGO(op, emitter)                            \
    const struct algo_def algo_##op##_ref = {             \
        .name = "ref",                                    \
        .doc = "mean, variance, result: a row at a time", \
        .error = ERROR_STRICT,                            \
        .deterministic = true,                            \
        .applicable = rows_always,                        \
        .emit = emitter,                                  \
    }
NORM_ALGO(instance_norm, emit_instance);
NORM_ALGO(group_norm, emit_group);
NORM_ALGO(layer_norm, emit_layer);
