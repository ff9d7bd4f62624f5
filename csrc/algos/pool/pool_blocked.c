/* pool_blocked: windows and adaptive bins over channel blocks; see kernels/pool/pool_blocked.cl. */
#include "algos/common/blocked.h"
#include "algos/pool/pool.h"

enum bin { WINDOWS, BINS };
enum kind { MAX, AVG };

bool pool_blocked_applicable(const struct problem *p, struct why *why)
{
    REQUIRE(why, p->block > 0, NO_BLOCKS);
    PREFER(why, p->in[0].shape.dim[1] * 2 >= p->block, FEW_CHANNELS);
    return true;
}

/* Where spatial dimension i of so many is in the arguments. */
static int place_of(int i, int dims)
{
    return i == dims - 1 ? 1 : i == dims - 2 ? 0 : 2;
}

struct pool_blocked_args pool_blocked_sizes(const struct problem *p)
{
    const struct operand *x = &p->in[0], *y = &p->out[0];
    const int dims = x->shape.rank - 2;
    struct pool_blocked_args a = {
        .x_n = x->batch_stride,
        .y_n = y->batch_stride,
        .c = x->shape.dim[1],
        .in = {1, 1, 1},
        .out = {1, 1, 1},
        .ker = {1, 1, 1},
        .stride = {1, 1, 1},
        .dil = {1, 1, 1},
    };
    for (int i = 0; i < dims; i++) {
        const int d = place_of(i, dims);
        a.in[d] = x->shape.dim[2 + i];
        a.out[d] = y->shape.dim[2 + i];
    }
    return a;
}

/* Square windows of the sizes that nets use are unrolled. */
static int unrolled(const struct pool_blocked_args *a)
{
    const bool known = a->ker[0] == a->ker[1] && (a->ker[0] == 2 || a->ker[0] == 3);
    return known && a->dil[0] == 1 && a->dil[1] == 1 ? a->ker[0] : 0;
}

void pool_blocked_windows(struct pool_blocked_args *a, const struct pool_attrs *attrs, int dims)
{
    for (int i = 0; i < dims; i++) {
        const int d = place_of(i, dims);
        a->ker[d] = attrs->kernel_size.v[i];
        a->stride[d] = attrs->stride.v[i];
        a->pad[d] = attrs->padding.v[i];
        a->pad_end[d] = attrs->padding.v[dims + i];
        a->dil[d] = attrs->dilation.v[i];
    }
    a->include_pad = attrs->count_include_pad;
    a->kind = unrolled(a);
}

static void emit(const struct problem *p, struct emit *e, enum bin bin, enum kind kind)
{
    struct pool_blocked_args a = pool_blocked_sizes(p);
    double macs = (double)shape_count(&p->in[0].shape);
    a.kind = POOL_BINS;
    if (bin == WINDOWS) {
        pool_blocked_windows(&a, p->attrs, p->in[0].shape.rank - 2);
        macs = (double)shape_count(&p->out[0].shape) * a.ker[0] * a.ker[1] * a.ker[2];
    }
    const size_t planes = (size_t)p->in[0].shape.dim[0] * (size_t)blocked_count(p, a.c),
                 rows = (size_t)a.out[2] * (size_t)a.out[0];
    a.average = kind == AVG;
    a.rows = blocked_run(p, planes, rows, 1);
    struct step *s = emit_step(e, "pool_blocked", "main", planes * ceil_div(rows, (size_t)a.rows), 1);
    step_define(s, "V", p->block);
    step_read(s, p->in[0].view);
    step_write(s, p->out[0].view);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, macs);
}

static void emit_max(const struct problem *p, struct emit *e)
{
    emit(p, e, WINDOWS, MAX);
}

static void emit_avg(const struct problem *p, struct emit *e)
{
    emit(p, e, WINDOWS, AVG);
}

static void emit_adaptive_max(const struct problem *p, struct emit *e)
{
    emit(p, e, BINS, MAX);
}

static void emit_adaptive_avg(const struct problem *p, struct emit *e)
{
    emit(p, e, BINS, AVG);
}

const struct algo_def algo_max_pool_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = pool_blocked_applicable,
    .emit = emit_max,
};

const struct algo_def algo_avg_pool_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = pool_blocked_applicable,
    .emit = emit_avg,
};

const struct algo_def algo_adaptive_max_pool_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_EXACT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = pool_blocked_applicable,
    .emit = emit_adaptive_max,
};

const struct algo_def algo_adaptive_avg_pool_blocked = {
    .name = "blocked",
    .doc = "vectors of channels, on channel blocks",
    .devices = DEVICES_CPU,
    .error = ERROR_STRICT,
    .deterministic = true,
    .src = LAYOUT_BLOCKED,
    .dst = LAYOUT_BLOCKED,
    .applicable = pool_blocked_applicable,
    .emit = emit_adaptive_avg,
};
