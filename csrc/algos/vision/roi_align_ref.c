/* roi_align_ref: regions sampled into bins; see kernels/vision/roi_align_ref.cl. */
#include "algos/vision/roi.h"

struct roi_args roi_args_of(const struct problem *p)
{
    const struct roi_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *rois = &p->in[1], *y = &p->out[0];
    return (struct roi_args){
        .rows = (int64_t)y->shape.dim[0] * y->shape.dim[1] * y->shape.dim[2],
        .x_n = x->batch_stride,
        .roi_n = rois->batch_stride,
        .y_n = y->batch_stride,
        .n = x->shape.dim[0],
        .c = x->shape.dim[1],
        .in = {x->shape.dim[2], x->shape.dim[3]},
        .out = {y->shape.dim[2], y->shape.dim[3]},
        .samples = attrs->sampling_ratio,
        .scale = attrs->spatial_scale,
    };
}

struct roi_args roi_align_args(const struct problem *p)
{
    const struct roi_attrs *attrs = p->attrs;
    struct roi_args a = roi_args_of(p);
    a.offset = attrs->coordinates == 0 ? 0.5f : 0.0f;
    a.least = attrs->coordinates != 0;
    return a;
}

void roi_align_operands(struct step *s, const struct problem *p)
{
    const struct roi_attrs *attrs = p->attrs;
    const enum clcnn_dtype index = p->in[2].shape.dtype;
    step_define(s, "MOST", attrs->mode);
    if (index != CLCNN_INT64)
        step_define_type(s, "I", index);
    for (int i = 0; i < 3; i++)
        step_read(s, p->in[i].view);
    step_write(s, p->out[0].view);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct roi_args a = roi_align_args(p);
    struct step *s = rows_step(e, p, "roi_align_ref", "main", a.rows, a.out[1], &a.pieces);
    roi_align_operands(s, p);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_roi_align_ref = {
    .name = "ref",
    .doc = "each output by itself",
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = rows_always,
    .emit = emit,
};
