/* scatter_ref: slices changed at indices; see kernels/move/scatter_ref.cl. */
#include "algos/common/rows.h"
#include "move/move_args.h"

#include <string.h>

#define PARTS_OF_A_UNIT \
    4 /* work-items that list updates, for each compute unit: each of them reads all indices */

static size_t workspace(const struct problem *p)
{
    const int dim = ((const struct scatter_attrs *)p->attrs)->dim;
    return (size_t)(p->in[0].shape.dim[dim] + p->in[1].shape.dim[0]) * sizeof(int32_t);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct scatter_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *index = &p->in[1], *updates = &p->in[2], *y = &p->out[0];
    int64_t us[CLCNN_MAX_RANK], is[CLCNN_MAX_RANK];
    operand_strides(updates, us);
    operand_strides(index, is);
    struct scatter_args a = {
        .update_step = us[attrs->dim],
        .index_step = is[0],
        .slices = x->shape.dim[attrs->dim],
        .updates = index->shape.dim[0],
    };
    const size_t wanted = PARTS_OF_A_UNIT * (size_t)p->device->compute_units;
    const size_t parts = wanted < (size_t)a.slices ? wanted : (size_t)a.slices;
    a.part = (i32)ceil_div((size_t)a.slices, parts);
    const int first = emit_workspace_of(e, CLCNN_INT32, a.slices);
    const int next = emit_workspace_of(e, CLCNN_INT32, a.updates);

    struct step *s = emit_step(e, "scatter_ref", "list", ceil_div((size_t)a.slices, (size_t)a.part), 1);
    if (index->shape.dtype != CLCNN_INT64)
        step_define_type(s, "I", index->shape.dtype);
    step_read(s, index->view);
    step_write(s, first);
    step_write(s, next);
    step_args(s, &a, sizeof a);
    step_cost(s, 0, (double)parts * (double)shape_bytes(&index->shape));

    a.walk.rank = y->shape.rank;
    memcpy(a.walk.size, y->shape.dim, sizeof a.walk.size);
    operand_strides(x, a.walk.stride[0].of);
    a.walk.stride[1].of[attrs->dim] = 1;
    memcpy(a.walk.stride[2].of, us, sizeof us);
    a.walk.stride[2].of[attrs->dim] = 0;
    operand_strides(y, a.walk.stride[3].of);
    s = strided_step(e, p, "scatter_ref", &a.walk, 4);
    step_define_type(s, "T", y->shape.dtype);
    step_define(s, "REDUCE", attrs->reduction);
    step_read(s, x->view);
    step_read(s, first);
    step_read(s, next);
    step_read(s, updates->view);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_scatter_ref = {
    .name = "ref",
    .doc = "updates of each slice in a list, then output element by element",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
