/* nms_ref: boxes without those that overlap better ones; see kernels/vision/nms_ref.cl. */
#include "algos/common/rows.h"
#include "vision/vision_args.h"

static int64_t lists_of(const struct problem *p)
{
    return (int64_t)p->in[1].shape.dim[0] * p->in[1].shape.dim[1];
}

static size_t workspace(const struct problem *p)
{
    return (size_t)(p->out[0].shape.dim[0] + lists_of(p)) * sizeof(int64_t);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct nms_attrs *attrs = p->attrs;
    const struct operand *boxes = &p->in[0], *scores = &p->in[1], *rows = &p->out[0];
    const int64_t lists = lists_of(p);
    const struct nms_args a = {
        .boxes_n = boxes->batch_stride,
        .scores_n = scores->batch_stride,
        .row_n = rows->batch_stride,
        .lists = (i32)lists,
        .classes = scores->shape.dim[1],
        .boxes = boxes->shape.dim[1],
        .most = (i32)(rows->shape.dim[0] / lists),
        .iou = attrs->iou_threshold,
        .score = attrs->score_threshold,
    };
    const int kept = emit_workspace_of(e, CLCNN_INT64, rows->shape.dim[0]);
    const int counts = emit_workspace_of(e, CLCNN_INT64, lists);
    const size_t wg = 64, groups = ceil_div((size_t)lists, wg);

    struct step *s = emit_step(e, "nms_ref", "select", groups, wg);
    step_define(s, "CENTER", attrs->center_point_box);
    step_read(s, boxes->view);
    step_read(s, scores->view);
    step_write(s, kept);
    step_write(s, counts);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);

    s = emit_step(e, "nms_ref", "write", groups, wg);
    step_define(s, "CENTER", attrs->center_point_box);
    step_read(s, kept);
    step_read(s, counts);
    step_write(s, rows->view);
    step_write(s, p->out[1].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0, 2 * (double)shape_bytes(&rows->shape));
}

const struct algo_def algo_nms_ref = {
    .name = "ref",
    .doc = "a work-item for each class of an item, then their lists in a row",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
