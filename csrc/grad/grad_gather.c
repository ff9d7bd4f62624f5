/* grad_gather.c: elements that indices choose: dy is added up where they came from, in the order of the indices. */
#include "grad/grad.h"

#define DY (g->dy[0])

/* ---- indices, of int64 -------------------------------------------------------------------------------------- */

int grad_whole(struct grad *g, int64_t number)
{
    int value;
    int64_t *data =
        (int64_t *)grad_constant(g, &(struct clcnn_shape){.rank = 0, .dtype = CLCNN_INT64}, &value);

    if (data)
        *data = number;
    return value;
}

int grad_counting(struct grad *g, int32_t count, int64_t step, int dim, int rank)
{
    struct clcnn_shape shape = {.rank = rank, .dtype = CLCNN_INT64};
    int value;

    for (int i = 0; i < rank; i++)
        shape.dim[i] = i == dim ? count : 1;
    int64_t *data = (int64_t *)grad_constant(g, &shape, &value);
    for (int32_t i = 0; data && i < count; i++)
        data[i] = i * step;
    return value;
}

int grad_cast(struct grad *g, int x, enum clcnn_dtype to)
{
    if (grad_shape(g, x).dtype == to)
        return x;
    return grad_node(g, &op_cast, &(struct eltwise_attrs){.choice = (int32_t)to}, &x, 1);
}

/* Indices of a dimension of `size` elements, those below 0 counted from its end, times `step`. */
static int places(struct grad *g, int index, int32_t size, int64_t step)
{
    const int i = grad_cast(g, index, CLCNN_INT64);
    const int below = grad_of_two(g, &op_less, i, grad_whole(g, 0));
    const int from_end = grad_add(g, i, grad_whole(g, size));

    return grad_mul(g, grad_node(g, &op_where, NULL, (const int[]){below, from_end, i}, 3),
                    grad_whole(g, step));
}

static int64_t product(const struct clcnn_shape *s, int first, int past)
{
    int64_t count = 1;

    for (int i = first; i < past; i++)
        count *= s->dim[i];
    return count;
}

static int vector(struct grad *g, int x)
{
    const struct clcnn_shape shape = grad_shape(g, x);

    return grad_reshape(g, x, &(struct clcnn_shape){.rank = 1, .dim = {(int32_t)shape_count(&shape)}});
}

/* ---- sums --------------------------------------------------------------------------------------------------- */

int grad_scatter(struct grad *g, const struct clcnn_shape *shape, int dim, int index, int updates)
{
    const struct scatter_attrs a = {.dim = dim, .reduction = 1};

    return grad_node(g, &op_scatter, &a, (const int[]){grad_full(g, shape, 0.0), index, updates}, 3);
}

/* Zeros of x's shape, seen as `rows` rows, with dy added to those at `index`. */
static int in_rows(struct grad *g, int x, int64_t rows, int index, int dy)
{
    const struct clcnn_shape shape = grad_shape(g, x), places_of = grad_shape(g, index);
    const int32_t each = (int32_t)(shape_count(&shape) / rows);
    const int32_t count = (int32_t)shape_count(&places_of);
    const struct clcnn_shape flat = {.rank = 2, .dim = {(int32_t)rows, each}},
                             updates = {.rank = 2, .dim = {count, each}};

    const int sums = grad_scatter(g, &flat, 0, vector(g, index), grad_reshape(g, dy, &updates));
    return grad_reshape(g, sums, &shape);
}

void grad_gather(struct grad *g)
{
    const int dim = ((const struct dim_attrs *)g->node.attrs)->dim;
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), index = grad_shape(g, g->node.in[1]);
    struct clcnn_shape updates = x;

    if (!grad_wants(g, 0))
        return;
    updates.dim[dim] = (int32_t)shape_count(&index);
    grad_give(g, 0, grad_scatter(g, &x, dim, vector(g, g->node.in[1]), grad_reshape(g, DY, &updates)));
}

/* dy[i] added to the element of x that has its own place but `index` along dim. */
static void give_elements(struct grad *g, int dim, int index)
{
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), y = grad_shape(g, DY);

    if (!grad_wants(g, 0))
        return;
    int at = places(g, index, x.dim[dim], product(&x, dim + 1, x.rank));
    for (int i = 0; i < x.rank; i++) {
        if (i != dim)
            at = grad_add(g, at, grad_counting(g, y.dim[i], product(&x, i + 1, x.rank), i, y.rank));
    }
    grad_give(g, 0, in_rows(g, g->node.in[0], shape_count(&x), at, DY));
}

void grad_gather_elements(struct grad *g)
{
    give_elements(g, ((const struct dim_attrs *)g->node.attrs)->dim, g->node.in[1]);
}

void grad_topk(struct grad *g)
{
    if (DY >= 0)
        give_elements(g, ((const struct topk_attrs *)g->node.attrs)->dim, g->node.out[1]);
}

void grad_gather_nd(struct grad *g)
{
    const int batch = ((const struct gather_nd_attrs *)g->node.attrs)->batch_dims, index = g->node.in[1];
    const struct clcnn_shape x = grad_shape(g, g->node.in[0]), i = grad_shape(g, index);
    const int last = i.rank - 1, behind = batch + i.dim[last];
    int at = -1;

    if (!grad_wants(g, 0))
        return;
    for (int k = 0; k < i.dim[last]; k++) {
        const int step =
            places(g, grad_range(g, index, last, k, 1), x.dim[batch + k], product(&x, batch + k + 1, behind));
        at = at < 0 ? step : grad_add(g, at, step);
    }
    for (int k = 0; k < batch; k++)
        at = grad_add(g, at, grad_counting(g, x.dim[k], product(&x, k + 1, behind), k, i.rank));
    grad_give(g, 0, in_rows(g, g->node.in[0], product(&x, 0, behind), at, DY));
}

/* Sums only: what an update replaces depends on those before it. */
void grad_scatter_rule(struct grad *g)
{
    const struct scatter_attrs *a = g->node.attrs;

    if (a->reduction != 1) {
        grad_unsupported(g, "unless updates are added (reduction=add)");
        return;
    }
    if (grad_wants(g, 0))
        grad_give(g, 0, DY);
    if (grad_wants(g, 2)) {
        const int in[] = {DY, g->node.in[1]};
        grad_give(g, 2, grad_node(g, &op_gather, &(struct dim_attrs){a->dim}, in, 2));
    }
}
