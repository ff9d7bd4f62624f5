/* copy_strided: the operators that move elements without changing them, each as one or more strided
 * copies; see kernels/move/copy_strided.cl. */
#include "algos/common/rows.h"

#include <string.h>

/* Where one side of a copy lives. */
struct end {
    int view;
    int64_t offset; /* elements from the view's first */
};

static void emit_copy(const struct problem *p, struct emit *e, struct end from, struct end to,
                      struct strided_args *a)
{
    struct step *s = strided_step(e, p, "copy_strided", a, 2);
    step_read_at(s, from.view, from.offset);
    step_write_at(s, to.view, to.offset);
    step_args(s, a, sizeof *a);
    double elements = 1;
    for (int d = 0; d < a->rank; d++)
        elements *= a->size[d];
    if (p->in[0].fp16) /* the bytes alone count */
        step_define_id(s, "T", "ushort");
    else
        step_define_type(s, "T", p->in[0].shape.dtype);
    step_cost(s, 0, 2 * elements * (double)operand_elem(&p->in[0]));
}

static void set_sizes(struct strided_args *a, const struct clcnn_shape *shape)
{
    a->rank = shape->rank;
    memcpy(a->size, shape->dim, sizeof a->size);
}

static void emit_concat(const struct problem *p, struct emit *e)
{
    const struct dim_attrs *attrs = p->attrs;
    int64_t at = 0, whole[CLCNN_MAX_RANK];
    operand_strides(&p->out[0], whole);
    for (int i = 0; i < p->n_in; i++) {
        const struct operand *x = &p->in[i];
        struct strided_args a = {0};
        set_sizes(&a, &x->shape);
        operand_strides(x, a.stride[0].of);
        memcpy(a.stride[1].of, whole, sizeof a.stride[1].of);
        if (!x->in_place)
            emit_copy(p, e, (struct end){x->view, 0}, (struct end){p->out[0].view, at * whole[attrs->dim]},
                      &a);
        at += x->shape.dim[attrs->dim];
    }
}

static void emit_split(const struct problem *p, struct emit *e)
{
    const struct split_attrs *attrs = p->attrs;
    int64_t at = 0, whole[CLCNN_MAX_RANK];
    operand_strides(&p->in[0], whole);
    for (int i = 0; i < p->n_out; i++) {
        const struct operand *y = &p->out[i];
        struct strided_args a = {0};
        set_sizes(&a, &y->shape);
        memcpy(a.stride[0].of, whole, sizeof a.stride[0].of);
        operand_strides(y, a.stride[1].of);
        emit_copy(p, e, (struct end){p->in[0].view, at * whole[attrs->dim]}, (struct end){y->view, 0}, &a);
        at += y->shape.dim[attrs->dim];
    }
}

static void emit_slice(const struct problem *p, struct emit *e)
{
    const struct slice_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    struct strided_args a = {0};
    set_sizes(&a, &y->shape);
    operand_strides(x, a.stride[0].of);
    operand_strides(y, a.stride[1].of);
    int64_t offset = 0;
    for (int d = 0; d < a.rank; d++) {
        offset += attrs->starts.v[d] * a.stride[0].of[d];
        a.stride[0].of[d] *= attrs->steps.v[d];
    }
    emit_copy(p, e, (struct end){x->view, offset}, (struct end){y->view, 0}, &a);
}

static void emit_transpose(const struct problem *p, struct emit *e)
{
    const struct axes_attrs *attrs = p->attrs;
    int64_t from[CLCNN_MAX_RANK];
    struct strided_args a = {0};
    set_sizes(&a, &p->out[0].shape);
    operand_strides(&p->in[0], from);
    operand_strides(&p->out[0], a.stride[1].of);
    for (int d = 0; d < a.rank; d++)
        a.stride[0].of[d] = from[attrs->axes.v[d]];
    emit_copy(p, e, (struct end){p->in[0].view, 0}, (struct end){p->out[0].view, 0}, &a);
}

static void emit_expand(const struct problem *p, struct emit *e)
{
    struct strided_args a = {0};
    set_sizes(&a, &p->out[0].shape);
    operand_broadcast(&p->in[0], &p->out[0].shape, a.stride[0].of);
    operand_strides(&p->out[0], a.stride[1].of);
    emit_copy(p, e, (struct end){p->in[0].view, 0}, (struct end){p->out[0].view, 0}, &a);
}

/* Copies items of x to items of y, where one size divides the other. */
static void emit_items(const struct problem *p, struct emit *e, int from, struct items x, int to,
                       struct items y)
{
    const struct items *small = x.size < y.size ? &x : &y;
    const int64_t per_x = x.size / small->size, per_y = y.size / small->size;
    /* (outer, middle, small): one of the two has its items in `outer`, the other one in `middle`. */
    const int64_t middle = per_x > per_y ? per_x : per_y, outer = x.count * per_x / middle;
    struct strided_args a = {.rank = 3, .size = {(i32)outer, (i32)middle, (i32)small->size}};
    a.stride[0].of[0] = per_x == middle ? x.stride : x.stride * middle;
    a.stride[0].of[1] = per_x == middle ? small->size : x.stride;
    a.stride[1].of[0] = per_y == middle ? y.stride : y.stride * middle;
    a.stride[1].of[1] = per_y == middle ? small->size : y.stride;
    a.stride[0].of[2] = a.stride[1].of[2] = 1;
    emit_copy(p, e, (struct end){from, 0}, (struct end){to, 0}, &a);
}

static bool divides(struct items x, struct items y)
{
    return x.size % y.size == 0 || y.size % x.size == 0;
}

static size_t reshape_workspace(const struct problem *p)
{
    const bool direct = divides(operand_items(&p->in[0]), operand_items(&p->out[0]));
    return direct ? 0 : shape_bytes(&p->in[0].shape);
}

/* Only the way items lie apart can differ; when neither item size divides the other, by way of a dense
 * copy. */
static void emit_reshape(const struct problem *p, struct emit *e)
{
    const struct items x = operand_items(&p->in[0]), y = operand_items(&p->out[0]);
    if (divides(x, y)) {
        emit_items(p, e, p->in[0].view, x, p->out[0].view, y);
        return;
    }
    const int64_t all = x.count * x.size;
    const struct items dense = {1, all, all};
    const int middle = emit_workspace_of(e, p->in[0].shape.dtype, all);
    emit_items(p, e, p->in[0].view, x, middle, dense);
    emit_items(p, e, middle, dense, p->out[0].view, y);
}

#define COPY_ALGO(op, text, emitter, bytes, layout_, fp16_) \
    const struct algo_def algo_##op##_ref = {               \
        .name = "ref",                                      \
        .doc = text,                                        \
        .error = ERROR_EXACT,                               \
        .deterministic = true,                              \
        .src = layout_,                                     \
        .dst = layout_,                                     \
        .fp16 = fp16_,                                      \
        .applicable = rows_always,                          \
        .workspace = bytes,                                 \
        .emit = emitter,                                    \
    }
COPY_ALGO(concat, "copies the inputs that their producers could not write in place", emit_concat, NULL,
          LAYOUT_ANY, FP16_SAME);
COPY_ALGO(split, "one copy an output", emit_split, NULL, LAYOUT_ANY, FP16_SAME);
COPY_ALGO(slice, "one strided copy", emit_slice, NULL, LAYOUT_ROW_MAJOR, FP16_SAME);
COPY_ALGO(transpose, "one strided copy", emit_transpose, NULL, LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(expand, "one strided copy", emit_expand, NULL, LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(reshape, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(flatten, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(squeeze, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(unsqueeze, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(identity, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
COPY_ALGO(dropout, "copy, where memory could not be shared", emit_reshape, reshape_workspace,
          LAYOUT_ROW_MAJOR, 0);
