/* grad_move.c: elements that are moved, joined, cut out or repeated: dy goes the way back. */
#include "grad/grad.h"

#define DY (g->dy[0])

enum { MOST_PARTS = 16 }; /* of a value that are joined at once */

void grad_reshape_rule(struct grad *g)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_reshape(g, DY, &x));
}

void grad_transpose_rule(struct grad *g)
{
    const struct ints *perm = &((const struct axes_attrs *)g->node.attrs)->axes;
    int32_t back[CLCNN_MAX_RANK];

    for (int32_t i = 0; i < perm->n; i++)
        back[perm->v[i]] = i;
    if (grad_wants(g, 0))
        grad_give(g, 0, grad_transpose(g, DY, back));
}

void grad_expand_rule(struct grad *g)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]);

    if (grad_wants(g, 0))
        grad_give(g, 0, grad_sum_to(g, DY, &x));
}

/* ---- joining and splitting ---- */

void grad_concat(struct grad *g)
{
    const int dim = ((const struct dim_attrs *)g->node.attrs)->dim;
    int32_t start = 0;

    for (int i = 0; i < g->node.n_in; i++) {
        const int32_t size = grad_shape(g, g->node.in[i]).dim[dim];
        if (grad_wants(g, i))
            grad_give(g, i, grad_range(g, DY, dim, start, size));
        start += size;
    }
}

void grad_split(struct grad *g)
{
    const struct split_attrs *a = g->node.attrs;
    int parts[MAX_OUTPUTS];

    if (!grad_wants(g, 0))
        return;
    for (int i = 0; i < g->node.n_out; i++) {
        const struct clcnn_shape shape = grad_shape(g, g->node.out[i]);
        parts[i] = g->dy[i] >= 0 ? g->dy[i] : grad_full(g, &shape, 0.0);
    }
    grad_give(g, 0, grad_node(g, &op_concat, &(struct dim_attrs){a->dim}, parts, g->node.n_out));
}

/* ---- cutting out ---- */

/* Zeros around x, or less of it: `begin` and `end` elements of dimension dim. */
static int pad(struct grad *g, int x, int dim, int32_t begin, int32_t end)
{
    const int rank = grad_shape(g, x).rank;
    struct pad_attrs a = {.pads = {.n = 2 * rank}};

    if (begin == 0 && end == 0)
        return x;
    a.pads.v[dim] = begin;
    a.pads.v[dim + rank] = end;
    return grad_node(g, &op_pad, &a, &x, 1);
}

/* x with step - 1 zeros behind each element of dimension dim: as columns of their own, which are padded. */
static int widened(struct grad *g, int x, int dim, int32_t step)
{
    const struct clcnn_shape s = grad_shape(g, x);
    struct clcnn_shape flat = {.rank = 3, .dim = {1, 1, 1}}, wide = s;

    for (int i = 0; i < s.rank; i++)
        flat.dim[i <= dim ? 0 : 2] *= s.dim[i];
    wide.dim[dim] *= step;
    return grad_reshape(g, pad(g, grad_reshape(g, x, &flat), 1, 0, step - 1), &wide);
}

/* x backwards along dimension dim. */
static int turned(struct grad *g, int x, int dim)
{
    const int32_t size = grad_shape(g, x).dim[dim];
    const struct slice_attrs a = {
        .starts = {1, {size - 1}}, .ends = {1, {-size - 1}}, .axes = {1, {dim}}, .steps = {1, {-1}}};

    return grad_node(g, &op_slice, &a, &x, 1);
}

/* A value that zeros were put around along one dimension. */
struct padded {
    int value, dim;
    int32_t begin, end;
};

/* The node that makes a value, if it is of this operator. */
static const struct node *made_by(const struct grad *g, int value, const struct op_def *op)
{
    const struct value *v = &g->graph->values[value];
    const struct node *n = v->kind == VALUE_NODE ? &g->graph->nodes[v->producer] : NULL;
    return n && n->op == op ? n : NULL;
}

static bool is_padded(const struct grad *g, int value, struct padded *p)
{
    const struct node *n = made_by(g, value, &op_pad);
    const struct pad_attrs *a = n ? n->attrs : NULL;
    const int rank = g->graph->values[value].shape.rank;

    if (!a || a->mode != 0 || a->value != 0.0f)
        return false;
    *p = (struct padded){n->in[0], -1, 0, 0};
    for (int d = 0; d < rank; d++) {
        const int32_t begin = a->pads.v[d], end = a->pads.v[d + rank];
        if ((begin || end) && (p->dim >= 0 || begin < 0 || end < 0))
            return false;
        if (begin || end)
            *p = (struct padded){n->in[0], d, begin, end};
    }
    return p->dim >= 0;
}

/* The parts of a value that was joined along dim, or the value; how many. */
static int parts_of(const struct grad *g, int value, int dim, int parts[MOST_PARTS])
{
    const struct node *n = made_by(g, value, &op_concat);

    parts[0] = value;
    if (!n || ((const struct dim_attrs *)n->attrs)->dim != dim || n->n_in > MOST_PARTS)
        return 1;
    for (int i = 0; i < n->n_in; i++)
        parts[i] = n->in[i];
    return n->n_in;
}

int grad_together(struct grad *g, int a, int b)
{
    struct padded one, two;
    int parts[2 * MOST_PARTS];

    if (g->st != CLCNN_OK || !is_padded(g, a, &one) || !is_padded(g, b, &two) || one.dim != two.dim)
        return grad_add(g, a, b);
    const int dim = one.dim;
    const struct padded first = one.begin < two.begin ? one : two, second = one.begin < two.begin ? two : one;
    if (first.begin + grad_shape(g, first.value).dim[dim] != second.begin)
        return grad_add(g, a, b);
    int n = parts_of(g, first.value, dim, parts);
    n += parts_of(g, second.value, dim, parts + n);
    const int joined = grad_node(g, &op_concat, &(struct dim_attrs){dim}, parts, n);
    return pad(g, joined, dim, first.begin, second.end);
}

void grad_slice(struct grad *g)
{
    const struct slice_attrs *a = g->node.attrs;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), y = grad_shape(g, DY);
    int dx = DY;

    if (!grad_wants(g, 0))
        return;
    for (int i = 0; i < x.rank; i++) {
        const int32_t step = a->steps.v[i] < 0 ? -a->steps.v[i] : a->steps.v[i], n = y.dim[i];
        const int32_t last = a->starts.v[i] + (n - 1) * a->steps.v[i];
        const int32_t first = a->steps.v[i] < 0 ? last : a->starts.v[i];
        if (a->steps.v[i] < 0 && n > 1)
            dx = turned(g, dx, i);
        const bool wide = step > 1 && n > 1;
        if (wide)
            dx = widened(g, dx, i, step);
        dx = pad(g, dx, i, first, x.dim[i] - first - (wide ? n * step : n));
    }
    grad_give(g, 0, dx);
}

void grad_pad(struct grad *g)
{
    const struct pad_attrs *a = g->node.attrs;
    const int rank = grad_shape(g, DY).rank;
    int dx = DY;

    if (!grad_wants(g, 0))
        return;
    if (a->mode != 0) {
        grad_pad_line(g);
        return;
    }
    for (int i = 0; i < rank; i++)
        dx = pad(g, dx, i, -a->pads.v[i], -a->pads.v[i + rank]);
    grad_give(g, 0, dx);
}
