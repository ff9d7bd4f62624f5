/* rewrite_broadcasts.c: what an operator broadcasts itself is not written out before it (efficient channel attention, as PyTorch's
 * expand_as() is exported).
 *
 *   op(x, expand(y))   =>   op(x, y)      op an operator of two operands, element by element; the result keeps its shape
 */
#include "graph/match.h"
#include "ops/rules.h"

/* The value that operand k of n is an expansion of, if n broadcasts that itself; -1 otherwise. */
static int narrow_operand(const struct rewriter *r, const struct node *n, int k)
{
    const struct value *values = r->g->values;
    const struct node *expand = match_op(r, n->in[k], &op_expand);
    struct clcnn_shape shape;
    if (!expand || rewrite_is_overridden(r, expand) ||
        !broadcast_shapes(&values[expand->in[0]].shape, &values[n->in[1 - k]].shape, &shape) ||
        !shape_equal(&shape, &values[n->out[0]].shape))
        return -1;
    return expand->in[0];
}

static bool is_expand(const struct node *n)
{
    return rewrite_is(n, &op_expand);
}

enum clcnn_status rewrite_drop_expands(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        for (int k = 0; !n->dead && eltwise_is_binary(n->op) && k < 2; k++) {
            const int narrow = narrow_operand(r, n, k);
            if (narrow < 0)
                continue;
            TRY(rewrite_note(r, "broadcast %s in %s %s", r->g->values[narrow].name, n->op->name, n->name));
            r->uses[n->in[k]]--;
            r->uses[narrow]++;
            n->in[k] = narrow;
        }
    }
    match_drop_unread(r, is_expand);
done:
    return st;
}
