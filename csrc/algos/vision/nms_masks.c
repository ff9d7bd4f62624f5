/* nms_masks: boxes in order of their scores, slab by slab, whose overlaps are bits; see kernels/vision/nms_masks.cl. */
#include "algos/vision/nms.h"

enum { WORD = 32, MANY_LISTS = 8, FEWER = 4 }; /* many lists keep a GPU busy with smaller slabs */

static struct nms_masks_args args_of(const struct problem *p)
{
    struct nms_masks_args m = {.nms = nms_args_of(p)};
    const size_t most = m.nms.lists > MANY_LISTS ? NMS_MOST_SLAB / FEWER : NMS_MOST_SLAB;
    const size_t all = round_up((size_t)m.nms.boxes, WORD);
    m.slab = (i32)(all < most ? all : most);
    return m;
}

static int64_t boxes_of(const struct nms_masks_args *m)
{
    return (int64_t)m->nms.lists * m->nms.boxes;
}

static int64_t masks_of(const struct nms_masks_args *m)
{
    return (int64_t)m->nms.lists * m->slab * (m->slab / WORD);
}

static int64_t fresh_of(const struct nms_masks_args *m)
{
    return (int64_t)m->nms.lists * (1 + m->slab);
}

static size_t workspace(const struct problem *p)
{
    const struct nms_masks_args m = args_of(p);
    const int64_t words = (2 + 4) * boxes_of(&m) + masks_of(&m) + fresh_of(&m); /* order, alive; corners */
    return nms_bytes(p) + sizeof(int32_t) * (size_t)words;
}

static struct step *masks_step(struct emit *e, const struct problem *p, const char *entry, size_t groups)
{
    const struct nms_attrs *attrs = p->attrs;
    struct step *s = emit_step(e, "nms_masks", entry, groups, any_group_size(p));
    step_define(s, "CENTER", attrs->center_point_box);
    return s;
}

static struct step *items_step(struct emit *e, const struct problem *p, const char *entry, int64_t items)
{
    return masks_step(e, p, entry, ceil_div((size_t)items, any_group_size(p)));
}

static void emit(const struct problem *p, struct emit *e)
{
    struct nms_masks_args m = args_of(p);
    const int64_t all = boxes_of(&m);
    const struct nms_lists l = emit_nms_lists(e, p);
    const int order = emit_workspace_of(e, CLCNN_INT32, all), alive = emit_workspace_of(e, CLCNN_INT32, all),
              near = emit_workspace_of(e, CLCNN_FLOAT32, 4 * all),
              masks = emit_workspace_of(e, CLCNN_INT32, masks_of(&m)),
              fresh = emit_workspace_of(e, CLCNN_INT32, fresh_of(&m));
    struct step *s = items_step(e, p, "rank", all);
    for (int i = 0; i < 2; i++)
        step_read(s, p->in[i].view);
    step_write(s, order);
    step_write(s, near);
    step_write(s, alive);
    step_args(s, &m.nms, sizeof m.nms);
    rows_cost(s, p, 0);
    for (; m.first < m.nms.boxes; m.first += m.slab) {
        s = items_step(e, p, "pairs", (int64_t)m.nms.lists * (m.slab / WORD) * m.slab);
        step_read(s, near);
        step_read(s, alive);
        step_write(s, masks);
        step_args(s, &m, sizeof m);
        s = masks_step(e, p, "scan", (size_t)m.nms.lists);
        step_read(s, order);
        step_read(s, alive);
        step_read(s, masks);
        step_write(s, fresh);
        step_write(s, l.kept);
        step_update(s, l.counts);
        step_args(s, &m, sizeof m);
        const int64_t rest = (int64_t)m.nms.boxes - m.first - m.slab;
        if (rest <= 0)
            break;
        s = items_step(e, p, "clear", m.nms.lists * rest);
        step_read(s, near);
        step_read(s, fresh);
        step_update(s, alive);
        step_args(s, &m, sizeof m);
    }
    emit_nms_rows(e, p, l);
}

const struct algo_def algo_nms_masks = {
    .name = "masks",
    .doc = "sorted by score, overlaps as bits, slab by slab",
    .devices = DEVICES_GPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
