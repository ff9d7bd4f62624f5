/* reduction.c: reductions as walks; see reduction.h. */
#include "algos/common/reduction.h"

struct dims {
    int n;
    int64_t size[CLCNN_MAX_RANK], x[CLCNN_MAX_RANK], y[CLCNN_MAX_RANK];
};

bool reduce_drops(const struct reduce_attrs *attrs, int dim)
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
        const bool drop = reduce_drops(attrs, d);
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

struct reduction reduction_of(const struct problem *p)
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
    r.length = a->size[a->rank - 1];
    a->parts = 1;
    a->chunk = r.length;
    a->divisor = 1.0f;
    return r;
}

void reduction_take_apart(struct reduction *r)
{
    struct reduce_args *a = &r->args;
    const struct reduce_args old = *a;
    const int inner = r->columns ? a->kept - 1 : a->kept; /* stays the last one that is kept */
    r->walks = a->rank - a->kept - 1;
    a->kept += r->walks;
    r->outputs *= a->outer;
    a->outer = 1;
    for (int d = inner; d < a->kept; d++) {
        const int from = d < inner + r->walks ? d + old.kept - inner : inner;
        a->size[d] = old.size[from];
        a->x[d] = old.x[from];
        a->y[d] = old.y[from];
    }
}

void reduction_cut(const struct problem *p, struct reduction *r, int64_t parts)
{
    if (parts < 2 || (size_t)(r->outputs * parts) * sizeof(float) > p->workspace_limit)
        parts = 1;
    r->args.chunk = (int64_t)ceil_div((size_t)r->length, (size_t)parts);
    r->args.parts = (int64_t)ceil_div((size_t)r->length, (size_t)r->args.chunk);
}

/* Whether results of walks or parts are left to add up. */
static bool has_second_pass(const struct reduction *r)
{
    return r->args.parts > 1 || r->walks > 0;
}

size_t reduction_workspace(const struct reduction *r)
{
    return has_second_pass(r) ? (size_t)(r->outputs * r->args.parts) * sizeof(float) : 0;
}

struct lanes_reduce_args reduction_lanes_args(const struct reduction *r)
{
    const struct reduce_args *cut = &r->args;
    const int inner = r->columns ? cut->kept - 1 : -1;
    struct lanes_reduce_args a = {
        .inner = inner >= 0 ? cut->size[inner] : 1,
        .parts = cut->parts,
        .chunk = cut->chunk,
        .length = r->length,
        .x_step = cut->x[cut->rank - 1],
        .y_step = inner >= 0 ? cut->y[inner] : 0,
        .kept = cut->kept - r->columns,
        .divisor = cut->divisor,
    };
    for (int d = 0; d < a.kept; d++) {
        a.size[d] = cut->size[d];
        a.x[d] = cut->x[d];
        a.y[d] = cut->y[d];
    }
    a.rows = r->outputs * a.parts / a.inner;
    return a;
}

/* The pass over the results of walks and parts, in scratch, where each output has them in a row; `first` will write them so. */
static struct reduction second_pass(struct reduction *first)
{
    struct reduce_args *from = &first->args;
    const int last = from->kept - first->walks, begin = last - first->columns, end = begin + first->walks;
    struct reduction second = {
        .outputs = 1, .args = {.rank = last + 1, .kept = last, .outer = 1, .parts = 1, .divisor = 1.0f}};
    int64_t step = from->parts;
    for (int d = end - 1; d >= begin; d--) { /* walks */
        from->y[d] = step;
        step *= from->size[d];
    }
    second.length = second.args.chunk = step;
    second.args.size[last] = (i32)step;
    second.args.x[last] = 1;
    for (int d = last - 1; d >= 0; d--) {
        const int of = d < begin ? d : d + first->walks;
        second.args.size[d] = from->size[of];
        second.args.y[d] = from->y[of];
        from->y[of] = second.args.x[d] = step;
        step *= from->size[of];
        second.outputs *= from->size[of];
    }
    return second;
}

void reduction_emit(const struct problem *p, struct emit *e, struct reduction first, const char *red,
                    bool mean, reduction_pass *pass)
{
    const int x = p->in[0].view, y = p->out[0].view;
    const float divisor =
        mean ? (float)((double)shape_count(&p->in[0].shape) / (double)shape_count(&p->out[0].shape)) : 1.0f;
    if (!has_second_pass(&first)) {
        first.args.divisor = divisor;
        pass(p, e, &first, red, x, y);
        return;
    }
    struct reduction second = second_pass(&first);
    second.args.divisor = divisor;
    const int middle = emit_workspace(e, reduction_workspace(&first));
    pass(p, e, &first, red, x, middle);
    pass(p, e, &second, red, middle, y);
}
