/* gather_ref: elements picked by indices; see kernels/move/gather_ref.cl. */
#include "algos/common/rows.h"
#include "move/move_args.h"

#include <string.h>

static void emit_with(const struct problem *p, struct emit *e, struct gather_args *a)
{
    const struct operand *y = &p->out[0];
    const enum clcnn_dtype index = p->in[1].shape.dtype;
    a->walk.rank = y->shape.rank;
    memcpy(a->walk.size, y->shape.dim, sizeof a->walk.size);
    operand_strides(y, a->walk.stride[2].of);
    struct step *s = strided_step(e, p, "gather_ref", &a->walk, 3);
    step_define_type(s, "T", y->shape.dtype);
    if (index != CLCNN_INT64)
        step_define_type(s, "I", index);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, y->view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}

static void add_axis(struct gather_args *a, const struct operand *x, int dim)
{
    int64_t xs[CLCNN_MAX_RANK];
    operand_strides(x, xs);
    a->axis_step[a->axes] = xs[dim];
    a->axis_size[a->axes++] = x->shape.dim[dim];
}

/* y[outer, indices, inner] = x[outer, index, inner] */
static void emit_gather(const struct problem *p, struct emit *e)
{
    const int dim = ((const struct dim_attrs *)p->attrs)->dim;
    const struct operand *x = &p->in[0], *index = &p->in[1];
    const int many = index->shape.rank;
    struct gather_args a = {0};
    int64_t xs[CLCNN_MAX_RANK];
    operand_strides(x, xs);
    memcpy(a.walk.stride[0].of, xs, (size_t)dim * sizeof *xs);
    memcpy(a.walk.stride[0].of + dim + many, xs + dim + 1, (size_t)(x->shape.rank - dim - 1) * sizeof *xs);
    operand_strides(index, a.walk.stride[1].of + dim);
    memset(a.walk.stride[1].of + dim + many, 0, (size_t)(CLCNN_MAX_RANK - dim - many) * sizeof *xs);
    add_axis(&a, x, dim);
    emit_with(p, e, &a);
}

/* y[i..] = x[i.. with index[i..] in place of dimension dim] */
static void emit_elements(const struct problem *p, struct emit *e)
{
    const int dim = ((const struct dim_attrs *)p->attrs)->dim;
    struct gather_args a = {0};
    operand_strides(&p->in[0], a.walk.stride[0].of);
    a.walk.stride[0].of[dim] = 0;
    operand_strides(&p->in[1], a.walk.stride[1].of);
    add_axis(&a, &p->in[0], dim);
    emit_with(p, e, &a);
}

/* y[batch, indices, inner] = x[batch, index[..., 0], index[..., 1] ..., inner] */
static void emit_nd(const struct problem *p, struct emit *e)
{
    const int batch = ((const struct gather_nd_attrs *)p->attrs)->batch_dims;
    const struct operand *x = &p->in[0], *index = &p->in[1];
    const int last = index->shape.rank - 1, axes = index->shape.dim[last];
    struct gather_args a = {0};
    int64_t xs[CLCNN_MAX_RANK], is[CLCNN_MAX_RANK];
    operand_strides(x, xs);
    operand_strides(index, is);
    a.index_step = is[last];
    for (int d = 0; d < last; d++) {
        a.walk.stride[0].of[d] = d < batch ? xs[d] : 0;
        a.walk.stride[1].of[d] = is[d];
    }
    for (int d = batch + axes; d < x->shape.rank; d++)
        a.walk.stride[0].of[last + d - batch - axes] = xs[d];
    for (int k = 0; k < axes; k++)
        add_axis(&a, x, batch + k);
    emit_with(p, e, &a);
}

#define GATHER_ALGO(op, emitter)              \
    const struct algo_def algo_##op##_ref = { \
        .name = "ref",                        \
        .doc = "output element by element",   \
        .error = ERROR_EXACT,                 \
        .deterministic = true,                \
        .applicable = rows_always,            \
        .emit = emitter,                      \
    }
GATHER_ALGO(gather, emit_gather);
GATHER_ALGO(gather_elements, emit_elements);
GATHER_ALGO(gather_nd, emit_nd);
