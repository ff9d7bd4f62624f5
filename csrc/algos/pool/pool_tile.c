/* pool_tile: max_pool and avg_pool over large windows, first along the width; see kernels/pool/pool_tile.cl. */
#include "algos/pool/pool.h"

enum {
    ROOM = 2048,     /* floats in local memory */
    UNIT_GROUPS = 8, /* of a compute unit: a group takes several maps only where there are more */
};

struct tile {
    struct pool_tile_args args;
    int high, wide; /* output rows and columns of a tile */
};

/* Rows of the map that the windows of `count` output rows may meet. */
static int64_t rows_met(const struct pool_args *a, int64_t count)
{
    const int64_t rows = (count - 1) * a->stride[1] + a->ker[1];
    return rows < a->in[1] ? rows : a->in[1];
}

static struct tile tile_of(const struct problem *p)
{
    struct tile t = {.args.pool = pool_args_of(p, p->attrs)};
    const struct pool_args *a = &t.args.pool;
    t.high = a->out[1];
    t.wide = a->out[2];
    while (rows_met(a, t.high) * t.wide > ROOM) {
        if (t.high > t.wide)
            t.high = (t.high + 1) / 2;
        else
            t.wide = (t.wide + 1) / 2;
    }
    t.args.down = (i32)ceil_div((size_t)a->out[1], (size_t)t.high);
    t.args.across = (i32)ceil_div((size_t)a->out[2], (size_t)t.wide);
    t.args.maps = a->rows / a->out[1];
    const int64_t most = ROOM / (rows_met(a, t.high) * t.wide);
    const int64_t wanted = (int64_t)ceil_div((size_t)(t.args.maps * t.args.down * t.args.across),
                                             (size_t)device_units(p->device) * UNIT_GROUPS);
    t.args.planes = (i32)(wanted < most ? wanted : most);
    return t;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct pool_args a = pool_args_of(p, p->attrs);
    REQUIRE(why, p->in[0].shape.rank <= 4, "windows with a depth are left to ref");
    REQUIRE(why, a.dil[1] == 1 && a.dil[2] == 1, "windows with dilation are left to ref");
    REQUIRE(why, rows_met(&a, 1) <= ROOM, "the rows of a window exceed local memory");
    return true;
}

static void emit_pool(const struct problem *p, struct emit *e, bool average)
{
    const struct tile t = tile_of(p);
    const struct pool_args *a = &t.args.pool;
    const size_t tiles = (size_t)t.args.down * (size_t)t.args.across;
    const size_t groups = ceil_div((size_t)t.args.maps, (size_t)t.args.planes) * tiles;
    struct step *s = emit_step(e, "pool_tile", "main", groups, any_group_size(p));
    pool_step(s, p, a, average);
    step_define(s, "HIGH", t.high);
    step_define(s, "WIDE", t.wide);
    step_define(s, "MET", (int)rows_met(a, t.high));
    step_define(s, "ROOM", ROOM);
    step_args(s, &t.args, sizeof t.args);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape) * (a->ker[1] + a->ker[2]));
}

POOL_ALGOS(tile, "windows along the width, then along the height from local memory");
