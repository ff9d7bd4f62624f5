/* max_pool_grad_strips: the gradient of maxima by strips of columns on GPUs; see kernels/pool/max_pool_grad_strips.cl. */
#include "algos/pool/pool.h"

enum {
    MOST_WINNERS = 30, /* of the rows of the windows that see a strip, kept in registers */
    MOST_SUMS = 30,    /* of the rows that later windows still see */
    LEAST_CELLS = 4,   /* down a piece of a map, since two neighbours compare the rows between them */
};

struct strips {
    struct max_strips_args args;
    int columns, windows, phase;
};

static struct strips strips_of(const struct problem *p)
{
    const struct problem pool = max_pool_of(p);
    struct strips s = {.args = {.pool = pool_args_of(&pool, p->attrs), .dx_n = p->out[0].batch_stride}};
    const struct pool_args *a = &s.args.pool;
    const int stride = a->stride[2];
    /* two cells, or one where that lets whole strips be written at once */
    s.columns = stride > 1 && a->in[2] % (2 * stride) != 0 && a->in[2] % stride == 0 ? stride : 2 * stride;
    s.phase = a->pad[2] % stride;
    s.windows = (a->ker[2] - 1 - s.phase) / stride + 1 + (s.columns - 1 + s.phase) / stride;
    return s;
}

static bool applicable(const struct problem *p, struct why *why)
{
    const struct strips s = strips_of(p);
    const struct pool_args *a = &s.args.pool;
    const int high = a->ker[1] > a->stride[1] ? a->ker[1] : a->stride[1];
    if (!max_pool_grad_flat(p, a, why))
        return false;
    REQUIRE(why, a->ker[1] * s.windows <= MOST_WINNERS && high * s.columns <= MOST_SUMS,
            "what is known of the rows of a strip's windows must fit registers");
    return true;
}

/* Cuts maps so that all compute units have work. */
static void cut(struct strips *s, const struct problem *p)
{
    struct pool_args *a = &s->args.pool;
    const size_t cells = (size_t)max_pool_grad_cells(a, 1);
    const size_t maps = (size_t)p->in[0].shape.dim[0] * (size_t)a->c;
    const size_t strips = ceil_div((size_t)a->in[2], (size_t)s->columns);
    size_t pieces = ceil_div(device_units(p->device) * GPU_RESIDENT, maps * strips);
    if (pieces > cells / LEAST_CELLS)
        pieces = cells / LEAST_CELLS;
    s->args.cells = (int)ceil_div(cells, pieces > 0 ? pieces : 1);
    a->pieces = (int64_t)ceil_div(cells, (size_t)s->args.cells);
    a->rows = (int64_t)maps;
}

static void emit(const struct problem *p, struct emit *e)
{
    struct strips t = strips_of(p);
    const struct pool_args *a = &t.args.pool;
    cut(&t, p);
    const size_t items = (size_t)(a->rows * a->pieces) * ceil_div((size_t)a->in[2], (size_t)t.columns);
    const size_t wg = any_group_size(p);
    struct step *s = emit_step(e, "max_pool_grad_strips", "main", ceil_div(items, wg), wg);
    step_define(s, "COLS", t.columns);
    step_define(s, "PHASE", t.phase);
    step_define_id(s, "INDEX", items + wg <= UINT32_MAX ? "uint" : "ulong");
    max_pool_grad_windows(s, p, a);
    step_args(s, &t.args, sizeof t.args);
}

const struct algo_def algo_max_pool_grad_strips = {
    .name = "strips",
    .doc = "down strips of columns: each row is compared once for all windows over it",
    .devices = DEVICES_GPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .applicable = applicable,
    .emit = emit,
};
