/* nonzero_ref: numbers of the elements that are not 0; see kernels/move/nonzero_ref.cl. */
#include "algos/common/rows.h"
#include "move/move_args.h"

#define PART 1024 /* elements of a work-item: each adds up the counts of all parts before its own */

static int64_t parts_of(const struct problem *p)
{
    return (int64_t)ceil_div((size_t)p->out[0].shape.dim[0], PART);
}

static size_t workspace(const struct problem *p)
{
    return (size_t)parts_of(p) * sizeof(int32_t);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct operand *x = &p->in[0];
    const struct items items = operand_items(x);
    const struct nonzero_args a = {
        .x_n = items.stride,
        .size = items.size,
        .elements = p->out[0].shape.dim[0],
        .part = PART,
        .parts = (i32)parts_of(p),
    };
    const int counts = emit_workspace_of(e, CLCNN_INT32, a.parts);

    struct step *s = emit_step(e, "nonzero_ref", "count", (size_t)a.parts, 1);
    step_define_type(s, "T", x->shape.dtype);
    step_read(s, x->view);
    step_write(s, counts);
    step_args(s, &a, sizeof a);
    step_cost(s, 0, (double)shape_bytes(&x->shape));

    s = emit_step(e, "nonzero_ref", "write", (size_t)a.parts, 1);
    step_define_type(s, "T", x->shape.dtype);
    step_read(s, x->view);
    step_read(s, counts);
    step_write(s, p->out[0].view);
    step_write(s, p->out[1].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_nonzero_ref = {
    .name = "ref",
    .doc = "counts of parts, then a work-item writes the numbers of a part",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
