/* reduce_ref: sum, mean, max and min over any axes; see kernels/reduce_ref.cl. */
#include "algos/rows.h"

struct dims {
    int n;
    int64_t size[CLCNN_MAX_RANK], x[CLCNN_MAX_RANK], y[CLCNN_MAX_RANK];
};

static bool
is_reduced(const struct reduce_attrs *attrs, int dim)
{
    for (int i = 0; i < attrs->axes.n; i++)
        if (attrs->axes.v[i] == dim)
            return true;
    return attrs->axes.n == 0;
}

/* Adds a dimension, as a part of the one before it when both are one walk and `joins`. */
static void
add_dim(struct dims *d, int64_t size, int64_t x, int64_t y, bool joins)
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

/* Puts the dimension that the inner loop is best at last: a contiguous one, else the longest. Order does not matter to a
 * reduction. */
static void
choose_inner(struct dims *d)
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

static void
sort_dims(const struct problem *p, struct dims *kept, struct dims *reduced)
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

static struct reduce_args
args_of(const struct problem *p, bool mean, bool *columns)
{
    struct dims kept = {0}, reduced = {0};
    sort_dims(p, &kept, &reduced);
    *columns = kept.n > 0 && kept.x[kept.n - 1] == 1;
    choose_inner(&reduced);
    struct reduce_args a = {.rank = kept.n + reduced.n, .kept = kept.n, .rows = 1, .outer = 1};
    double count = 1;
    for (int d = 0; d < kept.n; d++) {
        a.size[d] = (i32)kept.size[d];
        a.x[d] = kept.x[d];
        a.y[d] = kept.y[d];
        a.rows *= *columns && d == kept.n - 1 ? 1 : kept.size[d];
    }
    for (int d = 0; d < reduced.n; d++) {
        a.size[kept.n + d] = (i32)reduced.size[d];
        a.x[kept.n + d] = reduced.x[d];
        a.outer *= d == reduced.n - 1 ? 1 : reduced.size[d];
        count *= (double)reduced.size[d];
    }
    a.divisor = mean ? (float)count : 1.0f;
    return a;
}

static void
emit_reduce(const struct problem *p, struct emit *e, const char *red, bool mean)
{
    bool columns;
    struct reduce_args a = args_of(p, mean, &columns);
    struct step *s;
    if (columns)
        s = rows_step(e, p, "reduce_ref", "columns", a.rows, a.size[a.kept - 1], &a.pieces);
    else
        s = lanes_step(e, p, "reduce_ref", "rows", a.rows, a.size[a.rank - 1]);
    step_define_id(s, "RED", red);
    step_read(s, p->in[0].slot);
    step_write(s, p->out[0].slot);
    step_args(s, &a, sizeof a);
    rows_cost(s, p, (double)shape_count(&p->in[0].shape));
}

/* One algorithm an operator: they differ in what combines two numbers. */
#define REDUCE_ALGO(op, red, mean, class)                 \
    static void                                           \
    emit_##op(const struct problem *p, struct emit *e)    \
    {                                                     \
        emit_reduce(p, e, red, mean);                     \
    }                                                     \
    const struct algo_def algo_##op##_ref = {             \
        .name = "ref",                                    \
        .doc = "partial results by blocks",               \
        .error = class,                                   \
        .deterministic = true,                            \
        .applicable = rows_always,                        \
        .emit = emit_##op,                                \
    }
REDUCE_ALGO(reduce_sum, "red_sum", false, ERROR_STRICT);
REDUCE_ALGO(reduce_mean, "red_sum", true, ERROR_STRICT);
REDUCE_ALGO(reduce_max, "red_max", false, ERROR_EXACT);
REDUCE_ALGO(reduce_min, "red_min", false, ERROR_EXACT);
