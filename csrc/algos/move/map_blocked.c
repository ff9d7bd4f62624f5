/* map_blocked: padding, cropping and slices of pixels on channel blocks; see kernels/move/map_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/common/rows.h"
#include "move/move_args.h"

static bool map_of_blocks(const struct problem *p, struct why *why)
{
    const int rank = p->in[0].shape.rank;
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32 && rank >= 3 && rank <= 5, "x is no map of floats");
    return true;
}

/* Whether x lies on channel blocks is known when the planner comes to the node; forced, reorders see to it. */
static bool on_blocks(const struct problem *p, struct why *why)
{
    if (p->asked)
        *p->asked = true;
    PREFER(why, p->in[0].block > 0, "x does not lie on channel blocks");
    return true;
}

/* Every pixel of y is the same pixel of x. */
static struct map_blocked_args same_map(const struct problem *p)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2, block = p->block;
    struct map_blocked_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .blocks = blocked_count(p, y->shape.dim[1]),
        .x_blocks = blocked_count(p, x->shape.dim[1]),
        .more = y->shape.dim[1] > x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .step = {1, 1, 1},
    };
    for (int i = 0; i < dims; i++) {
        a.in[3 - dims + i] = x->shape.dim[2 + i];
        a.out[3 - dims + i] = y->shape.dim[2 + i];
    }
    a.x_row = (i64)a.in[2] * block;
    a.x_plane = a.x_row * a.in[1];
    a.x_block = a.x_plane * a.in[0];
    return a;
}

static void emit_map(const struct problem *p, struct emit *e, struct map_blocked_args *a, int64_t offset)
{
    const size_t planes = (size_t)p->in[0].shape.dim[0] * (size_t)a->blocks,
                 rows = (size_t)a->out[0] * (size_t)a->out[1];
    a->run = blocked_run(p, planes, rows, 1);
    struct step *s = emit_step(e, "map_blocked", "main", planes * ceil_div(rows, (size_t)a->run), 1);
    step_define(s, "V", p->block);
    step_read_at(s, p->in[0].view, offset);
    step_write(s, p->out[0].view);
    step_args(s, a, sizeof *a);
    rows_cost(s, p, 0);
}

/* ---- pad ------------------------------------------------------------------------------------------------------ */

static bool pad_applicable(const struct problem *p, struct why *why)
{
    const struct pad_attrs *attrs = p->attrs;
    if (!map_of_blocks(p, why))
        return false;
    const int *pads = attrs->pads.v, rank = p->in[0].shape.rank;
    const bool zeros = pads[rank + 1] > 0 && attrs->mode == 0 && attrs->value == 0.0f;
    REQUIRE(why, !pads[0] && !pads[1] && !pads[rank] && (!pads[rank + 1] || zeros),
            "items are padded, or channels by more than zeros behind the last one");
    REQUIRE(why, attrs->mode != PAD_ROLL, "what is cropped comes back at the other end");
    return on_blocks(p, why);
}

/* What is cropped is no longer part of x: its first element left is `offset` further. */
static void emit_pad(const struct problem *p, struct emit *e)
{
    const struct pad_attrs *attrs = p->attrs;
    struct map_blocked_args a = same_map(p);
    const int rank = p->in[0].shape.rank;
    const int64_t step[] = {a.x_plane, a.x_row, p->block};
    int64_t offset = 0;
    for (int i = 2; i < rank; i++) {
        const int d = 3 - rank + i, before = attrs->pads.v[i], after = attrs->pads.v[rank + i];
        a.in[d] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
        a.from[d] = before > 0 ? -before : 0;
        offset -= before < 0 ? before * step[d] : 0;
    }
    a.mode = attrs->mode;
    a.value = attrs->value;
    emit_map(p, e, &a, offset);
}

/* ---- slice ---------------------------------------------------------------------------------------------------- */

static bool slice_applicable(const struct problem *p, struct why *why)
{
    const struct slice_attrs *attrs = p->attrs;
    if (!map_of_blocks(p, why))
        return false;
    for (int d = 0; d < 2; d++)
        REQUIRE(why, p->in[0].shape.dim[d] == p->out[0].shape.dim[d] && attrs->steps.v[d] == 1,
                "items or channels are left out");
    return on_blocks(p, why);
}

static void emit_slice(const struct problem *p, struct emit *e)
{
    const struct slice_attrs *attrs = p->attrs;
    struct map_blocked_args a = same_map(p);
    for (int i = 2; i < p->in[0].shape.rank; i++) {
        const int d = 3 - p->in[0].shape.rank + i;
        a.from[d] = attrs->starts.v[i];
        a.step[d] = attrs->steps.v[i];
    }
    emit_map(p, e, &a, 0);
}

#define MAP_ALGO(op, applies, emitter)                           \
    const struct algo_def algo_##op##_blocked = {                \
        .name = "blocked",                                       \
        .doc = "rows by vectors of channels, on channel blocks", \
        .devices = DEVICES_CPU,                                  \
        .error = ERROR_EXACT,                                    \
        .deterministic = true,                                   \
        .src = LAYOUT_BLOCKED,                                   \
        .dst = LAYOUT_BLOCKED,                                   \
        .applicable = applies,                                   \
        .emit = emitter,                                         \
    }
MAP_ALGO(pad, pad_applicable, emit_pad);
MAP_ALGO(slice, slice_applicable, emit_slice);
