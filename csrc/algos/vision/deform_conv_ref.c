/* deform_conv_ref: deformable convolution by its definition; see kernels/vision/deform_conv_ref.cl. */
#include "algos/common/rows.h"
#include "vision/vision_args.h"

static void emit(const struct problem *p, struct emit *e)
{
    const struct deform_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *w = &p->in[1], *y = &p->out[0];
    struct deform_args a = {
        .rows = (int64_t)y->shape.dim[0] * y->shape.dim[1] * y->shape.dim[2],
        .x_n = x->batch_stride,
        .w_k = w->batch_stride,
        .offset_n = p->in[2].batch_stride,
        .mask_n = p->in[4].present ? p->in[4].batch_stride : 0,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .k = y->shape.dim[1],
        .groups = attrs->conv.groups,
        .offset_groups = attrs->offset_groups,
    };
    for (int d = 0; d < 2; d++) {
        a.in[d] = x->shape.dim[2 + d];
        a.out[d] = y->shape.dim[2 + d];
        a.ker[d] = w->shape.dim[2 + d];
        a.stride[d] = attrs->conv.stride.v[d];
        a.pad[d] = attrs->conv.padding.v[d];
        a.dil[d] = attrs->conv.dilation.v[d];
    }
    struct step *s = rows_step(e, p, "deform_conv_ref", "main", a.rows, a.out[1], &a.pieces);
    step_define(s, "BIAS", p->in[3].present);
    step_define(s, "MASK", p->in[4].present);
    for (int i = 0; i < 5; i++)
        step_read(s, p->in[i].present ? p->in[i].view : VIEW_NONE);
    step_write(s, y->view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&y->shape) * (double)shape_count_from(&w->shape, 1));
}

const struct algo_def algo_deform_conv_ref = {
    .name = "ref",
    .doc = "by the definition, output by output",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
