/* pool_window: max_pool and avg_pool over small windows, several output rows a work-item; see kernels/pool/pool_window.cl. */
#include "algos/pool/pool.h"

enum { LARGEST = 3, ROWS = 4 }; /* window and stride; output rows of a work-item */

void pool_step(struct step *s, const struct problem *p, const struct pool_args *a, bool average)
{
    step_define(s, "AVG", average);
    step_define(s, "KH", a->ker[1]);
    step_define(s, "KW", a->ker[2]);
    step_define(s, "SH", a->stride[1]);
    step_define(s, "SW", a->stride[2]);
    step_read_map(s, &p->in[0]);
    step_write_map(s, &p->out[0]);
}

static bool small(const struct pool_args *a, int dim)
{
    return a->ker[dim] <= LARGEST && a->stride[dim] <= LARGEST && a->dil[dim] == 1;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct pool_args a = pool_args_of(p, p->attrs);
    REQUIRE(why, p->in[0].shape.rank <= 4, "windows with a depth are left to ref");
    REQUIRE(why, small(&a, 1) && small(&a, 2),
            "windows and strides up to 3 without dilation have a kernel of their own");
    return true;
}

static void emit_pool(const struct problem *p, struct emit *e, bool average)
{
    const struct pool_args a = pool_args_of(p, p->attrs);
    const size_t planes = (size_t)(a.rows / a.out[1]), strips = ceil_div((size_t)a.out[1], ROWS);
    const size_t wg = any_group_size(p);
    struct step *s =
        emit_step(e, "pool_window", "main", ceil_div(planes * strips * (size_t)a.out[2], wg), wg);
    pool_step(s, p, &a, average);
    step_define(s, "ROWS", ROWS);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->out[0].shape) * a.ker[1] * a.ker[2]);
}

POOL_ALGOS(window, "small windows, several output rows a work-item");
