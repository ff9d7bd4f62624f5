/* rows_norm_lanes: norms by several work-items a row, for GPUs; see kernels/norm_reduce/rows_norm_lanes.cl. */
#include "algos/norm_reduce/rows_norm.h"

enum { PART_KEPT = 16, LEAST_RUN = 4, MOST_PARTS = 1024 };

static bool applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, norm_is_rows(p), SEVERAL_ITEMS);
    return true;
}

static bool by_columns(const struct norm_vector_args *a)
{
    return !ROWS_ARE_CONTIGUOUS(a);
}

/* Parts that a row has which is longer than what a group keeps, each of several chunks that one keeps, as each part looks
 * at the sums of all. They do not depend on the batch, since sums depend on them. */
static int64_t parts_of(const struct problem *p, const struct norm_vector_args *a)
{
    const size_t chunk = any_group_size(p) * PART_KEPT, length = (size_t)a->length;
    const struct lanes l = lanes_of(p, by_columns(a), a->middle, a->inner, a->length);
    if (l.columns || !l.loops)
        return 1;
    const size_t chunks = ceil_div(length, chunk), run = ceil_div(chunks, MOST_PARTS);
    return (int64_t)ceil_div(chunks, run > LEAST_RUN ? run : LEAST_RUN);
}

static size_t workspace(const struct problem *p)
{
    const struct norm_vector_args a = norm_rows_of(p);
    const int64_t parts = parts_of(p, &a);
    return parts > 1 ? (size_t)(a.rows * parts) * 3 * sizeof(float) : 0;
}

/* Whether a row's elements come by fours that share a parameter: 4, else 1. */
static int vector_of(const struct norm_vector_args *a)
{
    return !by_columns(a) && a->plane > 0 && a->plane % 4 == 0 ? 4 : 1;
}

/* A step with lanes.clh's defines, which begins as all of them do. */
static struct step *start(const struct problem *p, struct emit *e, const char *entry, size_t groups,
                          const struct lanes *l, const struct norm_vector_args *a)
{
    struct step *s = lanes_emit(e, "rows_norm_lanes", entry, groups, l, a->length);
    step_define(s, "KIND", norm_kind(p));
    step_define(s, "VEC", vector_of(a));
    step_read(s, p->in[0].view);
    return s;
}

static void emit_parts(const struct problem *p, struct emit *e, struct norm_vector_args *a)
{
    const struct lanes l = {.lanes = (int)any_group_size(p), .kept = PART_KEPT, .group = any_group_size(p)};
    const size_t chunk = (size_t)(l.lanes * l.kept), groups = (size_t)(a->rows * a->parts);
    a->part_length = (int64_t)round_up(ceil_div((size_t)a->length, (size_t)a->parts), chunk);
    const int sums = emit_workspace(e, workspace(p));
    norm_sums(p, start(p, e, "sums", groups, &l, a), a, sums);
    norm_finish(p, start(p, e, "apply", groups, &l, a), a, sums);
}

static void emit(const struct problem *p, struct emit *e)
{
    struct norm_vector_args a = norm_rows_of(p);
    a.parts = parts_of(p, &a);
    if (a.parts > 1) {
        emit_parts(p, e, &a);
        return;
    }
    struct lanes l = lanes_of(p, by_columns(&a), a.middle, a.inner, a.length);
    lanes_widen(p, &l, a.rows, a.inner);
    if (l.columns)
        a.parts = l.tiles;
    norm_finish(p, start(p, e, "main", lanes_groups(&l, a.rows), &l, &a), &a, VIEW_NONE);
}

#define LANES_ALGO(op)                                                             \
    const struct algo_def algo_##op##_lanes = {                                    \
        .name = "lanes",                                                           \
        .doc = "several work-items a row, which is read once; long rows in parts", \
        .devices = DEVICES_GPU,                                                    \
        .error = ERROR_STRICT,                                                     \
        .deterministic = true,                                                     \
        .applicable = applicable,                                                  \
        .workspace = workspace,                                                    \
        .emit = emit,                                                              \
    }
LANES_ALGO(instance_norm);
LANES_ALGO(group_norm);
LANES_ALGO(layer_norm);
LANES_ALGO(rms_norm);
LANES_ALGO(l2_norm);
