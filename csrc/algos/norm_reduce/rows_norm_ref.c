/* rows_norm_ref: instance, group, layer, RMS and L2 norm; see kernels/norm_reduce/rows_norm_ref.cl. */
#include "algos/norm_reduce/rows_norm.h"

static void emit_with(const struct problem *p, struct emit *e, struct rows_norm_args *a)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    const bool neighbours = a->step > 1; /* work-items with a row each, that read side by side */
    a->eps = attrs->eps;
    a->p0 = p->p0;
    a->p1 = p->p1;
    a->weight = norm_operand(p, 1) != VIEW_NONE;
    a->bias = norm_operand(p, 2) != VIEW_NONE;
    struct step *s =
        lanes_step(e, p, "rows_norm_ref", "main", a->rows, neighbours ? 1 : a->parts * a->length);
    step_define(s, "KIND", norm_kind(p));
    step_read(s, p->in[0].view);
    norm_finish_with(p, s, VIEW_NONE, a, sizeof *a);
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
        .step = 1,
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

/* From dimension 0 on a row has parts in all items, which may lie apart. */
static void emit_layer(const struct problem *p, struct emit *e)
{
    const struct rows_norm_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const bool items = attrs->dim == 0 && x->shape.rank > 1;
    const int64_t all = shape_count(&x->shape), batch = x->shape.rank > 1 ? x->shape.dim[0] : 1;
    const int64_t inner = shape_count_from(&x->shape, attrs->dim + attrs->dims);
    const int64_t length = shape_count_from(&x->shape, attrs->dim) / inner;
    struct rows_norm_args a = {
        .rows = all / length,
        .parts = items ? batch : 1,
        .length = items ? length / batch : length,
        .step = inner,
        .x_n = items ? 0 : x->batch_stride,
        .y_n = items ? 0 : y->batch_stride,
        .x_part = x->batch_stride,
        .y_part = y->batch_stride,
        .run = 1,
    };
    a.per_item = items ? a.rows : all / batch / length;
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
NORM_ALGO(rms_norm, emit_layer);
NORM_ALGO(l2_norm, emit_layer);
