/* nms_groups: a group for each class of an item; see kernels/vision/nms_groups.cl. */
#include "algos/vision/nms.h"

static int64_t order_count(const struct nms_args *a)
{
    return (int64_t)a->lists * a->boxes;
}

static size_t near_bytes(const struct problem *p)
{
    return sizeof(float) * 4 * (size_t)p->out[0].shape.dim[0];
}

static size_t workspace(const struct problem *p)
{
    const struct nms_args a = nms_args_of(p);
    return nms_bytes(p) + sizeof(int32_t) * (size_t)order_count(&a) + near_bytes(p);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct nms_args a = nms_args_of(p);
    const struct nms_lists l = emit_nms_lists(e, p);
    const int order = emit_workspace_of(e, CLCNN_INT32, order_count(&a)),
              near = emit_workspace(e, near_bytes(p));
    const size_t wg = any_group_size(p);
    struct step *s = emit_step(e, "nms_groups", "rank", ceil_div((size_t)order_count(&a), wg), wg);
    step_read(s, p->in[1].view);
    step_write(s, order);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
    s = emit_step(e, "nms_groups", "select", (size_t)a.lists, wg);
    nms_operands(s, p, order, near, l);
    step_args(s, &a, sizeof a);
    emit_nms_rows(e, p, l);
}

const struct algo_def algo_nms_groups = {
    .name = "groups",
    .doc = "every box finds its place, then a group for each class of an item",
    .devices = DEVICES_GPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
