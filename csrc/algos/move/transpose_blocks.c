/* transpose_blocks: dimensions that go from last to channels, or back, where the map is on channel blocks; see
 * kernels/move/transpose_blocks.cl. */
#include "algos/move/reorders.h"

enum { RUN = 32 }; /* pixels of a work-item */

/* Whether dimension d of the result is dimension `from` of x, the others keeping their order. */
static bool moves(const struct problem *p, int from, int to)
{
    const struct ints *axes = &((const struct axes_attrs *)p->attrs)->axes;
    int next = 0;
    for (int d = 0; d < axes->n; d++) {
        next += next == from;
        if (axes->v[d] != (d == to ? from : next++))
            return false;
    }
    return axes->n >= 3;
}

static bool may_block(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "the elements are no floats");
    REQUIRE(why, moves(p, p->in[0].shape.rank - 1, 1), "the last dimension does not become the channels");
    PREFER(why, p->out[0].shape.dim[1] >= p->block, "fewer channels leave most of a block empty");
    PREFER(why, p->layouts_open ? p->wants_blocks : p->out[0].block > 0, "what reads the result takes rows");
    return true;
}

static bool may_unblock(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, "channel blocks are for CPU devices with vectors of 8 or 16 floats");
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "the elements are no floats");
    REQUIRE(why, moves(p, 1, p->in[0].shape.rank - 1), "the channels do not become the last dimension");
    PREFER(why, p->in[0].block > 0, "the map is not on channel blocks");
    return true;
}

static void emit_moved(const struct problem *p, struct emit *e, const struct clcnn_shape *map, bool to_block)
{
    const struct reorder_args a = reorder_args_of(p, map);
    const size_t blocks = (size_t)a.n * ceil_div((size_t)a.c, (size_t)p->block);
    struct step *s = emit_step(e, "transpose_blocks", "main", blocks * ceil_div((size_t)a.pixels, RUN), 1);
    step_define(s, "V", p->block);
    step_define(s, "RUN", RUN);
    step_define(s, "TO_BLOCK", to_block);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

static void emit_block(const struct problem *p, struct emit *e)
{
    emit_moved(p, e, &p->out[0].shape, true);
}

static void emit_unblock(const struct problem *p, struct emit *e)
{
    emit_moved(p, e, &p->in[0].shape, false);
}

const struct algo_def algo_transpose_block = {
    .name = "block",
    .doc = "rows of channels to channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .src = LAYOUT_ROW_MAJOR,
    .dst = LAYOUT_BLOCKED,
    .applicable = may_block,
    .emit = emit_block,
};

const struct algo_def algo_transpose_unblock = {
    .name = "unblock",
    .doc = "channel blocks to rows of channels",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_ROW_MAJOR,
    .applicable = may_unblock,
    .emit = emit_unblock,
};
