/* reduce_ref: sum, mean, max and min over any axes; see kernels/norm_reduce/reduce_ref.cl. */
#include "algos/common/lines.h"

struct dims {
    int n;
    int64_t size[CLCNN_MAX_RANK], x[CLCNN_MAX_RANK], y[CLCNN_MAX_RANK];
};

static bool is_reduced(const struct reduce_attrs *attrs, int dim)
{
    for (int i = 0; i < attrs->axes.n; i++)
        if (attrs->axes.v[i] == dim)
            return true;
    return attrs->axes.n == 0;
}

/* Adds a dimension, as a part of the one before it when both are one walk and `joins`. */
static void add_dim(struct dims *d, int64_t size, int64_t x, int64_t y, bool joins)
{
    if (size == 1)
        return;
    const int last = d->n - 1;
    const bool merge = joins && last >= 0 && d->x[last] == x * size && d->y[last] == y * size &&
                       d->size[last] * size <= INT32_MAX;
    const int to = merge ? last : d->n++;
    d->size[to] = merge ? d->size[last] * size : size;
    d->x[to] = x;
    d->y[to] = y;
}

/* Puts the dimension that the inner loop is best at last: a contiguous one, else the longest. Order does
 * not matter to a reduction. */
static void choose_inner(struct dims *d)
{
    int best = d->n - 1;
    for (int i = 0; i < d->n; i++)
        if (d->x[best] != 1 && d->size[i] > d->size[best])
            best = i;
    const int last = d->n - 1;
    const int64_t size = d->size[best], x = d->x[best];
    d->size[best] = d->size[last];
    d->x[best] = d->x[last];
    d->size[last] = size;
    d->x[last] = x;
}

static void sort_dims(const struct problem *p, struct dims *kept, struct dims *reduced)
{
    const struct reduce_attrs *attrs = p->attrs;
    const struct operand *x = &p->in[0], *y = &p->out[0];
    int64_t xs[CLCNN_MAX_RANK], ys[CLCNN_MAX_RANK];
    operand_strides(x, xs);
    operand_strides(y, ys);
    bool before = false; /* whether the dimension before was reduced */
    for (int d = 0, out = 0; d < x->shape.rank; d++) {
        const bool drop = is_reduced(attrs, d);
        if (drop)
            add_dim(reduced, x->shape.dim[d], xs[d], 0, d > 0 && before);
        else
            add_dim(kept, x->shape.dim[d], xs[d], ys[out], d > 0 && !before);
        out += !drop || attrs->keepdims;
        if (x->shape.dim[d] > 1)
            before = drop;
    }
    if (reduced->n == 0)
        *reduced = (struct dims){.n = 1, .size = {1}, .x = {1}};
}

/* What a reduction comes down to: where the work-items go, and whether it takes two launches. */
struct reduction {
    struct reduce_args args;
    bool columns; /* the innermost dimension is kept */
    int64_t outputs;
};

/* Depends on strides, which layouts change after applicable(), so that it is nothing to DECIDE.
 * Few outputs leave a device idle: cuts the last reduced dimension into parts, so that there is a row for
 * every work-item that it holds, and enough in each to be worth it. */
static void choose_parts(const struct problem *p, struct reduction *r)
{
    const int64_t units = (int64_t)device_units(p->device);
    const int64_t length = r->args.size[r->args.rank - 1];
    const bool cpu = cpu_device(p->device);
    const int64_t wanted = cpu          ? 4 * units
                           : r->columns ? 1024 * units
                                        : 8 * units; /* rows, or columns on a GPU */
    const int64_t have = r->columns && cpu ? (r->outputs + 63) / 64 : r->outputs;
    const int64_t least = r->columns ? 64 : 4096;
    int64_t parts = wanted / have;
    if (parts > length / least)
        parts = length / least;
    if (parts < 2 || (size_t)(r->outputs * parts) * sizeof(float) > p->workspace_limit)
        parts = 1;
    r->args.chunk = (int64_t)ceil_div(length, parts);
    r->args.parts = (int64_t)ceil_div(length, r->args.chunk);
}

static struct reduction reduction_of(const struct problem *p)
{
    struct dims kept = {0}, reduced = {0};
    sort_dims(p, &kept, &reduced);
    choose_inner(&reduced);
    struct reduction r = {.columns = kept.n > 0 && kept.x[kept.n - 1] == 1, .outputs = 1};
    struct reduce_args *a = &r.args;
    a->rank = kept.n + reduced.n;
    a->kept = kept.n;
    for (int d = 0; d < kept.n; d++) {
        a->size[d] = (i32)kept.size[d];
        a->x[d] = kept.x[d];
        a->y[d] = kept.y[d];
        r.outputs *= kept.size[d];
    }
    a->outer = 1;
    for (int d = 0; d < reduced.n; d++) {
        a->size[kept.n + d] = (i32)reduced.size[d];
        a->x[kept.n + d] = reduced.x[d];
        a->outer *= d == reduced.n - 1 ? 1 : reduced.size[d];
    }
    choose_parts(p, &r);
    return r;
}

static void emit_pass(const struct problem *p, struct emit *e, const struct reduction *r, const char *red,
                      int from, int to)
{
    struct reduce_args a = r->args;
    struct step *s;
    a.rows = r->outputs * a.parts;
    if (r->columns) {
        const int64_t inner = a.size[a.kept - 1];
        a.rows /= inner;
        s = rows_step(e, p, "reduce_ref", "columns", a.rows, inner, &a.pieces);
    } else {
        s = lanes_step(e, p, "reduce_ref", "rows", a.rows, a.chunk);
    }
    step_define_id(s, "RED", red);
    step_read(s, from);
    step_write(s, to);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[0].shape));
}

static size_t workspace(const struct problem *p)
{
    if (p->in[0].shape.dtype != CLCNN_FLOAT32)
        return 0;
    const struct reduction r = reduction_of(p);
    return r.args.parts > 1 ? (size_t)(r.outputs * r.args.parts) * sizeof(float) : 0;
}

static void emit_reduce(const struct problem *p, struct emit *e, const char *red, bool mean)
{
    struct reduction first = reduction_of(p);
    const int x = p->in[0].view, y = p->out[0].view;
    const float divisor = mean ? (float)((double)shape_count(&p->in[0].shape) / (double)first.outputs) : 1.0f;
    const int64_t parts = first.args.parts;
    first.args.divisor = divisor;
    if (parts == 1) {
        emit_pass(p, e, &first, red, x, y);
        return;
    }
    struct reduction second = {.outputs = first.outputs,
                               .args = {
                                   .rank = first.args.kept + 1,
                                   .kept = first.args.kept,
                                   .outer = 1,
                                   .parts = 1,
                                   .chunk = parts,
                                   .divisor = divisor,
                               }};
    const int last = second.args.kept;
    int64_t step = parts; /* in the workspace each output has its parts in a row */
    for (int d = last - 1; d >= 0; d--) {
        second.args.size[d] = first.args.size[d];
        second.args.y[d] = first.args.y[d];
        first.args.y[d] = second.args.x[d] = step;
        step *= first.args.size[d];
    }
    second.args.size[last] = (i32)parts;
    second.args.x[last] = 1;
    first.args.divisor = 1.0f;
    const int middle = emit_workspace(e, workspace(p));
    emit_pass(p, e, &first, red, x, middle);
    emit_pass(p, e, &second, red, middle, y);
}

/* One algorithm an operator: they differ in what combines two numbers. */
#define REDUCE_ALGO(op, red, typed, mean, class)                           \
    static void emit_##op(const struct problem *p, struct emit *e)         \
    {                                                                      \
        if (p->in[0].shape.dtype != CLCNN_FLOAT32)                         \
            emit_reduce_typed(p, e, typed);                                \
        else                                                               \
            emit_reduce(p, e, red, mean);                                  \
    }                                                                      \
    const struct algo_def algo_##op##_ref = {                              \
        .name = "ref",                                                     \
        .doc = "partial results by blocks, in parts when outputs are few", \
        .error = class,                                                    \
        .deterministic = true,                                             \
        .applicable = rows_always,                                         \
        .workspace = workspace,                                            \
        .emit = emit_##op,                                                 \
    }
REDUCE_ALGO(reduce_sum, "red_sum", "int_add", false, ERROR_STRICT);
REDUCE_ALGO(reduce_mean, "red_sum", "int_add", true, ERROR_STRICT);
REDUCE_ALGO(reduce_max, "red_max", "int_maximum", false, ERROR_EXACT);
REDUCE_ALGO(reduce_min, "red_min", "int_minimum", false, ERROR_EXACT);
