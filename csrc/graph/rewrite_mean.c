/* rewrite_mean.c: the mean of each channel of a map, which exporters write as a reduction, becomes an adaptive pooling to one pixel:
 * that one has algorithms for every layout. */
#include "graph/rewrite.h"

#include <stdlib.h>

/* All dimensions from 2 on, which stay as ones. */
static bool is_mean_of_channels(const struct rewriter *r, const struct node *n)
{
    if (n->dead || !rewrite_is(n, &op_reduce_mean))
        return false;
    const struct reduce_attrs *a = n->attrs;
    const int rank = r->g->values[n->in[0]].shape.rank;
    return a->keepdims && rank >= 3 && rank <= 5 && a->axes.n == rank - 2 && a->axes.v[0] == 2;
}

enum clcnn_status rewrite_mean_to_pool(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (!is_mean_of_channels(r, n) || rewrite_is_forced(r, n, &op_adaptive_avg_pool))
            continue;
        struct adaptive_attrs *a = clcnn_calloc(1, sizeof *a);
        if (!a)
            return clcnn_fail_mem(r->err, sizeof *a);
        a->output_size.n = r->g->values[n->in[0]].shape.rank - 2;
        for (int d = 0; d < a->output_size.n; d++)
            a->output_size.v[d] = 1;
        free(n->attrs);
        n->attrs = a;
        n->op = &op_adaptive_avg_pool;
        TRY(rewrite_note(r, "turn reduce_mean %s over pixels into adaptive_avg_pool", n->name));
    }
done:
    return st;
}
