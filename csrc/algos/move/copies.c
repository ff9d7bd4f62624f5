/* copies.c: operators as strided copies; see copies.h. */
#include "algos/move/copies.h"

#include <string.h>

void copy_step(struct step *s, const struct problem *p, struct end x, struct end y, int64_t elements)
{
    step_read_at(s, x.view, x.offset);
    step_write_at(s, y.view, y.offset);
    copy_cost(s, p, elements);
}

void copy_cost(struct step *s, const struct problem *p, int64_t elements)
{
    if (p->in[0].fp16) /* the bytes alone count */
        step_define_id(s, "T", "ushort");
    else
        step_define_type(s, "T", p->in[0].shape.dtype);
    step_cost(s, 0, 2 * (double)elements * (double)operand_elem(&p->in[0]));
}

static void set_sizes(struct strided_args *a, const struct clcnn_shape *shape)
{
    a->rank = shape->rank;
    memcpy(a->size, shape->dim, sizeof a->size);
}

void concat_copies(const struct problem *p, copy_fn *copy, void *to)
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
            copy(p, to, (struct end){x->view, 0}, (struct end){p->out[0].view, at * whole[attrs->dim]}, &a);
        at += x->shape.dim[attrs->dim];
    }
}

void split_copies(const struct problem *p, copy_fn *copy, void *to)
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
        copy(p, to, (struct end){p->in[0].view, at * whole[attrs->dim]}, (struct end){y->view, 0}, &a);
        at += y->shape.dim[attrs->dim];
    }
}

void slice_copies(const struct problem *p, copy_fn *copy, void *to)
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
    copy(p, to, (struct end){x->view, offset}, (struct end){y->view, 0}, &a);
}

void transpose_copies(const struct problem *p, copy_fn *copy, void *to)
{
    const struct axes_attrs *attrs = p->attrs;
    int64_t from[CLCNN_MAX_RANK];
    struct strided_args a = {0};
    set_sizes(&a, &p->out[0].shape);
    operand_strides(&p->in[0], from);
    operand_strides(&p->out[0], a.stride[1].of);
    for (int d = 0; d < a.rank; d++)
        a.stride[0].of[d] = from[attrs->axes.v[d]];
    copy(p, to, (struct end){p->in[0].view, 0}, (struct end){p->out[0].view, 0}, &a);
}

void expand_copies(const struct problem *p, copy_fn *copy, void *to)
{
    struct strided_args a = {0};
    set_sizes(&a, &p->out[0].shape);
    operand_broadcast(&p->in[0], &p->out[0].shape, a.stride[0].of);
    operand_strides(&p->out[0], a.stride[1].of);
    copy(p, to, (struct end){p->in[0].view, 0}, (struct end){p->out[0].view, 0}, &a);
}
