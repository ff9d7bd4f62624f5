/* nms_sorted: boxes in order of their scores against vectors of kept ones; see kernels/vision/nms_sorted.cl. */
#include "algos/vision/nms.h"

enum {
    GROUPS_EACH = 4, /* of a core */
    BINS = 128       /* at most, each of which may have a chunk that is not full */
};

static int lanes_of(const struct problem *p)
{
    const int block = device_traits(p->device).channel_block;
    return block ? block : 4;
}

static struct nms_sorted_args args_of(const struct problem *p)
{
    struct nms_sorted_args a = {.nms = nms_args_of(p)};
    const size_t groups = GROUPS_EACH * device_units(p->device);
    a.groups = (size_t)a.nms.lists < groups ? a.nms.lists : (i32)groups;
    a.padded = (i32)round_up((size_t)a.nms.most, (size_t)lanes_of(p)) + BINS * lanes_of(p);
    return a;
}

static size_t order_bytes(const struct nms_sorted_args *a)
{
    return sizeof(uint64_t) * 2 * (size_t)a->groups * (size_t)a->nms.boxes;
}

static size_t near_bytes(const struct nms_sorted_args *a)
{
    return sizeof(float) * 6 * (size_t)a->groups * (size_t)a->padded;
}

static size_t workspace(const struct problem *p)
{
    const struct nms_sorted_args a = args_of(p);
    return nms_bytes(p) + order_bytes(&a) + near_bytes(&a);
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct nms_sorted_args a = args_of(p);
    const struct nms_lists l = emit_nms_lists(e, p);
    const int order = emit_workspace_of(e, CLCNN_INT64, (int64_t)(order_bytes(&a) / sizeof(int64_t)));
    const int near = emit_workspace(e, near_bytes(&a));
    struct step *s = emit_step(e, "nms_sorted", "select", (size_t)a.groups, 1);
    step_define(s, "V", lanes_of(p));
    step_define(s, "BINS", BINS);
    nms_operands(s, p, order, near, l);
    step_args(s, &a, sizeof a);
    emit_nms_rows(e, p, l);
}

const struct algo_def algo_nms_sorted = {
    .name = "sorted",
    .doc = "sorted by score, each against vectors of kept ones near it",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = rows_always,
    .workspace = workspace,
    .emit = emit,
};
