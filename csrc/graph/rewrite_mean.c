/* rewrite_mean.c: the mean or the maximum of each channel of a map, which exporters write as a reduction, becomes an adaptive
 * pooling to one pixel, and the root of its sum of squares one window of lp_pool: these have algorithms for channel blocks, and
 * write no squares. */
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
        else if (!n->dead && rewrite_is(n, &op_sqrt))
            TRY(match_norm(r, n));
    }
done:
    return st;
}
