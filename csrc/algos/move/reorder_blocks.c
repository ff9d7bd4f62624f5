/* reorder_blocks: row-major maps to channel blocks and back; see kernels/move/reorder_blocks.cl. */
#include "algos/move/reorders.h"

enum {
    SPAN = 4,    /* tiles of pixels that a work-item moves, */
    ENOUGH = 16, /* where there are so many work-items for each core */
};

static bool always(const struct problem *p, struct why *why)
{
    (void)p, (void)why;
    return true;
}

struct reorder_args reorder_args_of(const struct problem *p, const struct clcnn_shape *map)
{
    return (struct reorder_args){
        .x_n = p->in[0].batch_stride,
        .y_n = p->out[0].batch_stride,
        .n = map->dim[0],
        .c = map->dim[1],
        .pixels = (i32)shape_count_from(map, 2),
    };
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct clcnn_shape *shape = &p->in[0].shape;
    const size_t block = (size_t)p->block;
    const struct reorder_args a = reorder_args_of(p, shape);
    const size_t blocks = (size_t)a.n * ceil_div((size_t)a.c, block);
    size_t span = SPAN;
    while (span > 1 && blocks * ceil_div((size_t)a.pixels, span * block) < ENOUGH * device_units(p->device))
        span /= 2;
    const size_t groups = blocks * ceil_div((size_t)a.pixels, span * block);
    struct step *s = emit_step(e, "reorder_blocks", "main", groups, 1);
    step_define(s, "B", p->block);
    step_define(s, "SPAN", (int)span);
    step_define(s, "TO_BLOCK", p->out[0].block > 0);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    step_cost(s, 0.0, 8.0 * (double)shape_count(shape));
}

const struct algo_def algo_reorder_block = {
    .name = "block",
    .doc = "row-major maps to channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .src = LAYOUT_ROW_MAJOR,
    .dst = LAYOUT_BLOCKED,
    .applicable = always,
    .emit = emit,
};

const struct algo_def algo_reorder_unblock = {
    .name = "unblock",
    .doc = "channel blocks to row-major maps",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_ROW_MAJOR,
    .applicable = always,
    .emit = emit,
};
