/* transpose_tiled: transposes that move the innermost dimension, by tiles; see kernels/move/transpose_tiled.cl. */
#include "algos/common/walk.h"
#include "move/move_args.h"

enum {
    TILE = 32,
    WORTH = 16,      /* a shorter side leaves most of a tile empty */
    MOST_SPAN = 4,   /* tiles of a group: what fits its registers and local memory eight times over */
    LEAST_GROUPS = 4 /* of a compute unit, before groups take several tiles */
};

/* Tiles along high that a group takes: several hide more of the memory's latency, if there are enough for all units. */
static int span_of(const struct problem *p, const struct strided_args *v, int high)
{
    const int64_t across = (int64_t)ceil_div((size_t)v->size[high], TILE);
    const int64_t tiles = shape_count(&p->out[0].shape) / (TILE * TILE);
    const int64_t wanted = LEAST_GROUPS * (int64_t)device_units(p->device);
    int span = MOST_SPAN;
    while (span > 1 && (tiles / span < wanted || (across % span != 0 && across < 4 * span)))
        span /= 2;
    return span;
}

/* The permuted view of x beside y, merged. */
static struct strided_args view_of(const struct problem *p)
{
    const struct axes_attrs *attrs = p->attrs;
    int64_t from[CLCNN_MAX_RANK];
    struct strided_args a = {.rank = p->out[0].shape.rank};
    operand_strides(&p->in[0], from);
    operand_strides(&p->out[0], a.stride[1].of);
    for (int d = 0; d < a.rank; d++) {
        a.size[d] = p->out[0].shape.dim[d];
        a.stride[0].of[d] = from[attrs->axes.v[d]];
    }
    strided_merge(&a, 2);
    return a;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct strided_args a = view_of(p);
    const int last = a.rank - 1, high = strided_contiguous_dim(&a);
    REQUIRE(why, high != last && a.stride[1].of[last] == 1, "the innermost dimension stays in place");
    REQUIRE(why, p->in[0].shape.dtype == CLCNN_FLOAT32, "the elements are no floats");
    PREFER(why, !cpu_device(p->device), "a CPU's cache serves strided reads better");
    PREFER(why, a.size[high] >= WORTH && a.size[last] >= WORTH, "a side is shorter than half a tile");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct strided_args v = view_of(p);
    const int last = v.rank - 1, high = strided_contiguous_dim(&v);
    struct transpose_args a = {
        .x_step = v.stride[0].of[last],
        .y_step = v.stride[1].of[high],
        .high = v.size[high],
        .wide = v.size[last],
    };
    const int span = span_of(p, &v, high);
    size_t tiles = 1;
    a.tiles[0] = (i32)ceil_div((size_t)v.size[high], (size_t)span * TILE);
    a.tiles[1] = (i32)ceil_div(v.size[last], TILE);
    for (int d = last - 1; d >= 0; d--) {
        if (d == high)
            continue;
        a.x[a.rank] = v.stride[0].of[d];
        a.y[a.rank] = v.stride[1].of[d];
        a.tiles[2 + a.rank++] = v.size[d];
    }
    for (int d = 0; d < 2 + a.rank; d++) {
        tiles *= (size_t)a.tiles[d];
        walk_division(a.tiles[d], &a.factor[d], &a.shift[d]);
    }
    struct step *s = emit_step(e, "transpose_tiled", "main", tiles, GROUP_SIZE);
    step_define(s, "TILE", TILE);
    step_define(s, "SPAN", span);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, 0);
}

const struct algo_def algo_transpose_tiled = {
    .name = "tiled",
    .doc = "tiles through local memory, contiguous on both sides",
    .error = ERROR_EXACT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
