/* gemm_common.c: linear, matmul and gemm as one problem, and the kernels that solve it. */
#include "algos/matmul/gemm_common.h"

#include "algos/cost/cost.h"
#include "algos/cost/profile.h"
#include "algos/common/rows.h"

enum { SMALL_TILE = 64, LEAST_FILLED = 16 }; /* rows and columns; a sixteenth of a tile */

/* Elements between neighbours along each dimension: dense, but items may lie further apart. */
static void strides_of(const struct operand *o, int64_t stride[CLCNN_MAX_RANK])
{
    int64_t dense = 1;
    for (int d = o->shape.rank - 1; d >= 0; d--) {
        stride[d] = d == 0 && o->shape.rank > 1 ? o->batch_stride : dense;
        dense *= o->shape.dim[d];
    }
}

static struct gemm_args common_args(const struct problem *p)
{
    return (struct gemm_args){
        .batch = {1, 1, 1, 1, 1, 1},
        .alpha = 1.0f,
        .beta = 1.0f,
        .p0 = p->p0,
        .p1 = p->p1,
    };
}

/* Rows of y and add, when the first `batches` dimensions are batch dimensions and rows follow (or do not: one
 * row). */
static void set_results(struct gemm_args *a, const struct problem *p, int batches)
{
    int64_t y[CLCNN_MAX_RANK] = {0}, add[CLCNN_MAX_RANK] = {0};
    strides_of(&p->out[0], y);
    if (p->add.present)
        strides_of(&p->add, add);
    for (int d = 0; d < batches; d++) {
        a->y_b[d] = y[d];
        a->add_b[d] = add[d];
    }
    if (a->m > 1) {
        a->y_m = y[batches];
        a->add_m = add[batches];
    }
}

struct gemm_problem linear_as_gemm(const struct problem *p)
{
    const struct operand *x = &p->in[0], *w = &p->in[1];
    const int rank = x->shape.rank;
    struct gemm_args a = common_args(p);
    int64_t s[CLCNN_MAX_RANK];
    strides_of(x, s);
    a.k = x->shape.dim[rank - 1];
    a.n = w->shape.dim[0];
    a.a_k = a.b_k = a.c_n = 1;
    a.b_n = w->batch_stride;
    a.m = 1;
    if (rank == 2) {
        a.m = x->shape.dim[0];
        a.a_m = s[0];
    } else if (rank > 2) { /* rows are dense within an item of the batch */
        a.batch[0] = x->shape.dim[0];
        a.a_b[0] = s[0];
        for (int d = 1; d < rank - 1; d++)
            a.m *= x->shape.dim[d];
        a.a_m = a.k;
    }
    set_results(&a, p, rank > 2);
    if (rank > 2) { /* rows cover several dimensions */
        a.y_m = a.n;
        a.add_m = a.n;
    }
    return (struct gemm_problem){.args = a, .c = p->in[2].present ? &p->in[2] : NULL};
}

/* Batch strides of an operand whose batch dimensions are aligned on the right. */
static void set_batch(struct gemm_args *a, int64_t *stride, const struct operand *o, const int64_t *s,
                      int batches)
{
    const int own = o->shape.rank - 2;
    for (int d = 0; d < own; d++) {
        const int at = batches - own + d;
        stride[at] = o->shape.dim[d] > 1 ? s[d] : 0;
        if (o->shape.dim[d] > a->batch[at])
            a->batch[at] = o->shape.dim[d];
    }
}

/* Strides of matrices that are views: along batch dimensions (runs of items, items, heads), rows and columns. */
static void view_as_gemm(const struct operand_view *view, const struct operand *o, i64 batch[6], i64 *row,
                         i64 *column)
{
    i64 strides[VIEW_STRIDES];
    operand_view_strides(view, o, VIEW_STRIDES, strides);
    batch[0] = strides[4];
    batch[1] = strides[0];
    batch[2] = strides[1];
    *row = strides[2];
    *column = strides[3];
}

static struct gemm_problem views_as_gemm(const struct problem *p)
{
    const struct matmul_attrs *at = p->attrs;
    struct gemm_args a = common_args(p);
    i64 unused;
    const int32_t batch[] = {at->size[0] / at->run, at->run, at->size[1]};
    for (int d = 0; d < COUNT_OF(batch); d++)
        a.batch[d] = batch[d];
    a.m = at->size[2];
    a.n = at->size[3];
    a.k = at->size[4];
    a.alpha = at->alpha;
    view_as_gemm(&at->in[0], &p->in[0], a.a_b, &a.a_m, &a.a_k);
    view_as_gemm(&at->in[1], &p->in[1], a.b_b, &a.b_k, &a.b_n);
    view_as_gemm(&at->out, &p->out[0], a.y_b, &a.y_m, &unused);
    if (p->add.present) /* it has the result's shape */
        view_as_gemm(&at->out, &p->add, a.add_b, &a.add_m, &unused);
    if (a.k == 1)
        a.a_k = 1;
    return (struct gemm_problem){.args = a, .at = {at->in[0].offset, at->in[1].offset}};
}

struct gemm_problem matmul_as_gemm(const struct problem *p)
{
    if (((const struct matmul_attrs *)p->attrs)->viewed)
        return views_as_gemm(p);
    const struct operand *l = &p->in[0], *r = &p->in[1];
    const int lr = l->shape.rank, rr = r->shape.rank;
    struct gemm_args a = common_args(p);
    int64_t ls[CLCNN_MAX_RANK] = {0}, rs[CLCNN_MAX_RANK] = {0};
    strides_of(l, ls);
    strides_of(r, rs);
    a.k = l->shape.dim[lr - 1];
    a.a_k = ls[lr - 1];
    a.m = a.n = 1;
    if (lr > 1) {
        a.m = l->shape.dim[lr - 2];
        a.a_m = ls[lr - 2];
    }
    a.b_k = rr > 1 ? rs[rr - 2] : rs[0];
    if (rr > 1) {
        a.n = r->shape.dim[rr - 1];
        a.b_n = rs[rr - 1];
    }
    const int batches = lr > rr ? (lr > 2 ? lr - 2 : 0) : (rr > 2 ? rr - 2 : 0);
    set_batch(&a, a.a_b, l, ls, batches);
    set_batch(&a, a.b_b, r, rs, batches);
    set_results(&a, p, batches);
    return (struct gemm_problem){.args = a};
}

struct gemm_problem gemm_as_gemm(const struct problem *p)
{
    const struct gemm_attrs *at = p->attrs;
    const struct operand *l = &p->in[0], *r = &p->in[1], *c = &p->in[2];
    struct gemm_args a = common_args(p);
    a.m = p->out[0].shape.dim[0];
    a.n = p->out[0].shape.dim[1];
    a.k = l->shape.dim[at->trans_a ? 0 : 1];
    a.a_m = at->trans_a ? 1 : l->batch_stride;
    a.a_k = at->trans_a ? l->batch_stride : 1;
    a.b_k = at->trans_b ? 1 : r->batch_stride;
    a.b_n = at->trans_b ? r->batch_stride : 1;
    a.alpha = at->alpha;
    a.beta = at->beta;
    set_results(&a, p, 0);
    const bool has_c = c->present && at->beta != 0.0f; /* as in BLAS: beta 0 does not read c */
    if (has_c && c->shape.rank > 0) {
        int64_t s[CLCNN_MAX_RANK];
        strides_of(c, s);
        const int last = c->shape.rank - 1;
        a.c_n = c->shape.dim[last] > 1 ? s[last] : 0;
        a.c_m = last > 0 && c->shape.dim[last - 1] > 1 ? s[last - 1] : 0;
    }
    return (struct gemm_problem){.args = a, .c = has_c ? c : NULL};
}

size_t gemm_items(const struct gemm_args *a)
{
    size_t items = 1;
    for (int d = 0; d < COUNT_OF(a->batch); d++)
        items *= (size_t)a->batch[d];
    return items;
}

void gemm_merge_items(struct gemm_args *a, bool c, bool add)
{
    const size_t items = gemm_items(a);
    const int64_t row = a->m > 1 ? a->y_m : a->n;
    int64_t dense = a->m;
    if (items == 1 || (c && a->c_m != 0) || items * (size_t)a->m > INT32_MAX)
        return;
    for (int d = COUNT_OF(a->batch) - 1; d >= 0; dense *= a->batch[d], d--) {
        if (a->batch[d] == 1)
            continue;
        if (a->b_b[d] != 0 || a->a_b[d] != dense * a->a_m || a->y_b[d] != dense * row ||
            (add && a->add_b[d] != a->y_b[d]))
            return;
    }
    for (int d = 0; d < COUNT_OF(a->batch); d++)
        a->batch[d] = 1;
    a->m *= (int32_t)items;
    a->y_m = a->add_m = row;
}

bool linear_can_skip(const struct problem *p, struct why *why)
{
    const struct gemm_args a = linear_as_gemm(p).args;
    REQUIRE(why, gemm_items(&a) * (size_t)a.m == 1, "several rows have their zeros in different places");
    REQUIRE(why, p->in[1].constant, "computed weights may not be finite: no product with zero is left out");
    return true;
}

bool linear_may_skip(const struct problem *p, float least_share, struct why *why)
{
    PREFER(why, p->skip, "no zero is left out (skip=False)");
    PREFER(why, p->zeros.known || p->rectified, "the input comes out of no relu, as far as the graph tells");
    PREFER(why, !p->zeros.known || p->zeros.element >= least_share,
           "too few zeros, as far as they are known");
    return true;
}

double gemm_stream_effort(const struct problem *p, double bytes)
{
    return BLOCKED_EFFORT_PERCENT * bytes * MEMORY_BYTE_MACS * profile_memory(p->device) * DIRECT_PEAK_RATIO;
}

void gemm_cost(struct step *s, const struct problem *p, const struct gemm_args *a)
{
    const bool viewed = p->op == &op_matmul && ((const struct matmul_attrs *)p->attrs)->viewed;
    const double y = (double)gemm_items(a) * a->m * a->n;
    double bytes = viewed ? 4.0 * (double)gemm_items(a) * a->k * ((double)a->m + a->n) : 0.0;
    for (int i = 0; i < p->n_in && !viewed; i++)
        if (p->in[i].present)
            bytes += 4.0 * (double)shape_count(&p->in[i].shape);
    step_cost(s, y * a->k, bytes + 4.0 * y * (p->add.present ? 2.0 : 1.0));
}

/* The operands that all these kernels take, in their order. */
static void finish_step(struct step *s, const struct problem *p, const struct gemm_problem *g)
{
    step_read_at(s, p->in[0].view, g->at[0]);
    step_read_at(s, p->in[1].view, g->at[1]);
    step_epilogue(s, p, g->c);
    step_write(s, p->out[0].view);
    step_args(s, &g->args, sizeof g->args);
    gemm_cost(s, p, &g->args);
}

void emit_gemm_ref(struct emit *e, const struct problem *p, const struct gemm_problem *g)
{
    const size_t count = gemm_items(&g->args) * (size_t)g->args.m * (size_t)g->args.n;
    finish_step(emit_step(e, "gemm_ref", "main", ceil_div(count, GROUP_SIZE), GROUP_SIZE), p, g);
}

/* A tile computes SMALL_TILE rows and columns, whatever there are. On CPU devices each
 * output by itself is faster where a sixteenth of a tile or less is filled (64 products of 4 x 256 by 256 x 256 on
 * two cores of an EPYC, PoCL: 9.4 instead of 13.3 ms; of 1 row: 2.8 instead of 10 for 16 of 512). */
bool gemm_fills_tiles(const struct problem *p, const struct gemm_args *a)
{
    const size_t tile = SMALL_TILE * SMALL_TILE,
                 each = ceil_div((size_t)a->m, SMALL_TILE) * ceil_div((size_t)a->n, SMALL_TILE);
    return !cpu_device(p->device) || (size_t)a->m * (size_t)a->n > each * tile / LEAST_FILLED;
}
