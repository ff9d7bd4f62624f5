/* rewrite_rolls.c: arrays that go round in some of their dimensions (torch.roll) become one layer.
 *
 * Exporters write concat(x[a:], x[:a]) for each dimension. That is pad with pads -a and a, mode "roll"; a second one after it adds its
 * own. GPUs only: each of these layers is a step there, and their padding divides by no sizes. */
#include "graph/match.h"

/* Whether `value` is a slice that takes from..to of dimension d of x and all of the others. */
static bool is_part(const struct rewriter *r, int value, int x, int d, int32_t from, int32_t to)
{
    const struct node *n = match_op(r, value, &op_slice);
    if (!n || n->in[0] != x)
        return false;
    const struct slice_attrs *a = n->attrs;
    return match_slices_along(r, n, d) && a->starts.v[d] == from && a->ends.v[d] == to && a->steps.v[d] == 1;
}

/* The roll that gives x, if it leaves dimension d as it is and no one uses x but two slices; NULL otherwise. */
static struct node *roll_before(const struct rewriter *r, int x, int d)
{
    struct node *n = r->uses[x] == 2 ? match_op(r, x, &op_pad) : NULL;
    if (!n || rewrite_is_overridden(r, n))
        return NULL;
    const struct pad_attrs *a = n->attrs;
    return a->mode == PAD_ROLL && a->pads.v[d] == 0 && a->pads.v[a->pads.n / 2 + d] == 0 ? n : NULL;
}

static enum clcnn_status match_roll(struct rewriter *r, struct node *root)
{
    struct match m = {0};
    const int d = ((const struct dim_attrs *)root->attrs)->dim;
    struct node *first = root->n_in == 2 ? match_op(r, root->in[0], &op_slice) : NULL;
    struct node *second = first ? match_op(r, root->in[1], &op_slice) : NULL;
    if (!second)
        return CLCNN_OK;
    int x = first->in[0];
    const struct clcnn_shape s = r->g->values[x].shape;
    const int32_t from = ((const struct slice_attrs *)first->attrs)->starts.v[d];
    if (!is_part(r, root->in[0], x, d, from, s.dim[d]) || !is_part(r, root->in[1], x, d, 0, from))
        return CLCNN_OK;
    match_add(&m, first);
    match_add(&m, second);
    int64_t pads[2 * CLCNN_MAX_RANK] = {0};
    struct node *before = roll_before(r, x, d);
    if (before) {
        const struct ints *p = &((const struct pad_attrs *)before->attrs)->pads;
        for (int i = 0; i < p->n; i++)
            pads[i] = p->v[i];
        match_add(&m, before);
        x = before->in[0];
    }
    pads[d] = -from;
    pads[s.rank + d] = from;
    if (!match_closed(r, &m, root, &op_pad))
        return CLCNN_OK;
    const struct match_result result = {
        .op = &op_pad,
        .n_in = 1,
        .in = {x},
        .n_attrs = 2,
        .attrs = {{.name = "pads", .kind = CLCNN_ATTR_INTS, .n = 2 * s.rank, .ints = pads},
                  {.name = "mode", .kind = CLCNN_ATTR_ENUM, .s = "roll"}},
    };
    return match_replace(r, &m, root, &result);
}

enum clcnn_status rewrite_find_rolls(struct rewriter *r)
{
    enum clcnn_status st = CLCNN_OK;
    for (int i = 0; r->options->gpu && i < r->g->n_nodes; i++) {
        struct node *n = &r->g->nodes[i];
        if (!n->dead && rewrite_is(n, &op_concat))
            TRY(match_roll(r, n));
    }
done:
    return st;
}
