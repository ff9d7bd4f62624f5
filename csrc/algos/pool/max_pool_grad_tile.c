/* max_pool_grad_tile: the gradient of maxima by tiles on GPUs; see kernels/pool/max_pool_grad_tile.cl. */
#include "algos/pool/pool.h"

enum { WIDEST = 32, HIGHEST = 16, MOST_WINDOWS = 2048, MOST_CELL = 16, MOST_SEEN = 256 };

struct tile {
    struct max_pool_grad_args args;
    int cells[2], high, wide; /* of the map, down and across; of a tile */
};

/* The least power of two from 4 on that holds n, at most `most`. */
static int side(int n, int most)
{
    int power = 4;
    while (power < n && power < most)
        power *= 2;
    return power;
}

static struct tile tile_of(const struct problem *p)
{
    const struct problem pool = max_pool_of(p);
    struct tile t = {.args = {.pool = pool_args_of(&pool, p->attrs), .dx_n = p->out[0].batch_stride}};
    const struct pool_args *a = &t.args.pool;
    for (int d = 1; d < 3; d++)
        t.cells[d - 1] = max_pool_grad_cells(a, d);
    t.high = (int)ceil_div((size_t)side(a->in[1], HIGHEST), (size_t)a->stride[1]);
    t.wide = (int)ceil_div((size_t)side(a->in[2], WIDEST), (size_t)a->stride[2]);
    return t;
}

/* Windows that a cell is seen from. */
static int seen(const struct pool_args *a, int d)
{
    return (int)ceil_div((size_t)a->ker[d], (size_t)a->stride[d]);
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct tile t = tile_of(p);
    const struct pool_args *a = &t.args.pool;
    if (!max_pool_grad_flat(p, a, why))
        return false;
    REQUIRE(why, a->stride[1] * a->stride[2] <= MOST_CELL && seen(a, 1) * seen(a, 2) <= MOST_SEEN,
            "windows that are too large, or too far apart, to be told apart in registers are left to ref");
    REQUIRE(why, (t.high + seen(a, 1) - 1) * (t.wide + seen(a, 2) - 1) <= MOST_WINDOWS,
            "the windows that meet a tile must fit local memory");
    return true;
}

static void emit(const struct problem *p, struct emit *e)
{
    const struct tile t = tile_of(p);
    const struct pool_args *a = &t.args.pool;
    const size_t tiles =
        ceil_div((size_t)t.cells[0], (size_t)t.high) * ceil_div((size_t)t.cells[1], (size_t)t.wide);
    const size_t planes = (size_t)p->in[0].shape.dim[0] * (size_t)a->c;
    struct step *s = emit_step(e, "max_pool_grad_tile", "main", planes * tiles, any_group_size(p));
    step_define(s, "CH", t.high);
    step_define(s, "CW", t.wide);
    max_pool_grad_windows(s, p, a);
    step_args(s, &t.args, sizeof t.args);
}

const struct algo_def algo_max_pool_grad_tile = {
    .name = "tile",
    .doc = "where windows have their maxima, in local memory; each element of a tile asks them",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
