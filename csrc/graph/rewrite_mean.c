/* rewrite_mean.c: the mean or the maximum of each channel of a map, which exporters write as a reduction, becomes an adaptive
 * pooling to one pixel, and the root of its sum of squares one window of lp_pool: these have algorithms for channel blocks, and
 * write no squares. The pooling of a map that was turned from [N, pixels.., C] is a reduction, which needs no turning. */
#include "graph/match.h"

#include <stdlib.h>

/* All dimensions from 2 on, which stay as ones. */
static bool is_of_channels(const struct rewriter *r, const struct node *n)
{
    const struct reduce_attrs *a = n->attrs;
    const int rank = r->g->values[n->in[0]].shape.rank;
    return a->keepdims && rank >= 3 && rank <= 5 && a->axes.n == rank - 2 && a->axes.v[0] == 2;
}

static enum clcnn_status match_reduction(struct rewriter *r, struct node *n, const struct op_def *pool)
{
    if (!is_of_channels(r, n) || r->g->values[n->in[0]].shape.dtype != CLCNN_FLOAT32 ||
        rewrite_is_forced(r, n, pool))
        return CLCNN_OK;
    struct adaptive_attrs *a = clcnn_calloc(1, sizeof *a);
    if (!a)
        return clcnn_fail_mem(r->err, sizeof *a);
    a->output_size.n = r->g->values[n->in[0]].shape.rank - 2;
    for (int d = 0; d < a->output_size.n; d++)
        a->output_size.v[d] = 1;
    free(n->attrs);
    n->attrs = a;
    const struct op_def *from = n->op;
    n->op = pool;
    return rewrite_note(r, "turn %s %s over pixels into %s", from->name, n->name, pool->name);
}

/* Whether n turns [N, pixels.., C] to [N, C, pixels..]. */
static bool brings_channels_first(const struct rewriter *r, const struct node *n)
{
    const struct ints *perm = &((const struct axes_attrs *)n->attrs)->axes;
    return rewrite_is(n, &op_transpose) && perm->n >= 3 && rewrite_brings(perm, perm->n - 1, 1) &&
           !rewrite_is_overridden(r, n);
}

static bool pools_all(const struct rewriter *r, const struct node *n)
{
    const struct clcnn_shape *y = &r->g->values[n->out[0]].shape;
    return y->rank >= 3 && shape_count_from(y, 2) == 1 && n->epi.add < 0 && n->epi.act == ACT_none;
}

/* The turning becomes the reduction, and the pooling a reshape of it. */
static enum clcnn_status match_turned(struct rewriter *r, struct node *pool, const struct op_def *reduction)
{
    enum clcnn_status st = CLCNN_OK;
    struct node *turn = rewrite_sole_producer(r, pool->in[0]);
    struct reduce_attrs *reduce = NULL;
    struct shape_attrs *flat = NULL;
    if (!turn || !brings_channels_first(r, turn) || !pools_all(r, pool) || rewrite_is_overridden(r, pool))
        return CLCNN_OK;
    struct clcnn_shape *between = &r->g->values[pool->in[0]].shape, *y = &r->g->values[pool->out[0]].shape;
    TRY(rewrite_note(r, "reduce before transpose %s, which %s %s needs no more", turn->name, pool->op->name,
                     pool->name));
    reduce = clcnn_calloc(1, sizeof *reduce);
    flat = clcnn_calloc(1, sizeof *flat);
    if (!reduce || !flat)
        TRY(clcnn_fail_mem(r->err, sizeof *reduce));
    reduce->keepdims = 1;
    reduce->axes.n = between->rank - 2;
    flat->shape.n = y->rank;
    for (int d = 0; d < y->rank; d++)
        flat->shape.v[d] = y->dim[d];
    for (int d = 1; d < between->rank; d++)
        between->dim[d] = 1;
    between->dim[between->rank - 1] = y->dim[1];
    for (int d = 0; d < reduce->axes.n; d++)
        reduce->axes.v[d] = 1 + d;
    free(turn->attrs);
    free(pool->attrs);
    turn->op = reduction;
    turn->attrs = reduce;
    pool->op = &op_reshape;
    pool->attrs = flat;
    return CLCNN_OK;
done:
    free(reduce);
    free(flat);
    return st;
}

static enum clcnn_status match_norm(struct rewriter *r, struct node *root)
{
    struct match m = {0};
    int other = -1;
    struct node *sum = match_op(r, root->in[0], &op_reduce_sum);
    if (!sum || !is_of_channels(r, sum))
        return CLCNN_OK;
    match_add(&m, sum);
    const int x = match_square(r, sum->in[0], &m, &other);
    if (x < 0 || other != x || !match_closed(r, &m, root, &op_lp_pool))
        return CLCNN_OK;
    const struct clcnn_shape *s = &r->g->values[x].shape;
    int64_t all[CLCNN_MAX_RANK];
    for (int d = 2; d < s->rank; d++)
        all[d - 2] = s->dim[d];
    const struct match_result result = {
        .op = &op_lp_pool,
        .n_in = 1,
        .in = {x},
        .n_attrs = 1,
        .attrs = {{.name = "kernel_size", .kind = CLCNN_ATTR_INTS, .n = s->rank - 2, .ints = all}},
    };
    return match_replace(r, &m, root, &result);
}

enum clcnn_status rewrite_mean_to_pool(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (!n->dead && rewrite_is(n, &op_reduce_mean))
            TRY(match_reduction(r, n, &op_adaptive_avg_pool));
        else if (!n->dead && rewrite_is(n, &op_reduce_max))
            TRY(match_reduction(r, n, &op_adaptive_max_pool));
        else if (!n->dead && rewrite_is(n, &op_adaptive_avg_pool))
            TRY(match_turned(r, n, &op_reduce_mean));
        else if (!n->dead && rewrite_is(n, &op_adaptive_max_pool))
            TRY(match_turned(r, n, &op_reduce_max));
        else if (!n->dead && rewrite_is(n, &op_sqrt))
            TRY(match_norm(r, n));
    }
done:
    return st;
}
