/* nms_ref: boxes without those that overlap better ones; see kernels/vision/nms_ref.cl. */
#include "algos/vision/nms.h"

enum { GROUP = 64 };

struct nms_args nms_args_of(const struct problem *p)
{
    const struct nms_attrs *attrs = p->attrs;
    const struct operand *boxes = &p->in[0], *scores = &p->in[1], *rows = &p->out[0];
    const int64_t lists = (int64_t)scores->shape.dim[0] * scores->shape.dim[1];
    return (struct nms_args){
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
}

size_t nms_bytes(const struct problem *p)
{
    const struct nms_args a = nms_args_of(p);
    return ((size_t)p->out[0].shape.dim[0] + (size_t)a.lists) * sizeof(int64_t);
}

struct nms_lists emit_nms_lists(struct emit *e, const struct problem *p)
{
    const struct nms_args a = nms_args_of(p);
    return (struct nms_lists){
        .kept = emit_workspace_of(e, CLCNN_INT64, p->out[0].shape.dim[0]),
        .counts = emit_workspace_of(e, CLCNN_INT64, a.lists),
    };
}

static struct step *step_of(struct emit *e, const struct problem *p, const char *entry,
                            const struct nms_args *a)
{
    const struct nms_attrs *attrs = p->attrs;
    struct step *s = emit_step(e, "nms_ref", entry, ceil_div((size_t)a->lists, GROUP), GROUP);
    step_define(s, "CENTER", attrs->center_point_box);
    return s;
}

void nms_operands(struct step *s, const struct problem *p, int order, int near, struct nms_lists l)
{
    const struct nms_attrs *attrs = p->attrs;
    step_define(s, "CENTER", attrs->center_point_box);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_update(s, order);
    step_write(s, near);
    step_write(s, l.kept);
    step_write(s, l.counts);
    rows_cost(s, p, 0);
}

void emit_nms_rows(struct emit *e, const struct problem *p, struct nms_lists l)
{
    const struct nms_args a = nms_args_of(p);
    struct step *s = step_of(e, p, "write", &a);
    step_read(s, l.kept);
    step_read(s, l.counts);
    step_write(s, p->out[0].view);
    step_write(s, p->out[1].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0, 2 * (double)shape_bytes(&p->out[0].shape));
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct nms_args a = nms_args_of(p);
    const struct nms_lists l = emit_nms_lists(e, p);
    struct step *s = step_of(e, p, "select", &a);
    step_read(s, p->in[0].view);
    step_read(s, p->in[1].view);
    step_write(s, l.kept);
    step_write(s, l.counts);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
    emit_nms_rows(e, p, l);
}

const struct algo_def algo_nms_ref = {
    .name = "ref",
    .doc = "a work-item for each class of an item, then their lists in a row",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = nms_bytes,
    .emit = emit,
};
