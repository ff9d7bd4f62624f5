/* grad_build.c: what rules build gradients with: nodes that are appended to the graph, named after what they are part of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grad/grad.h"

#define MOST_ATTRS 1024 /* bytes of any operator's attributes */

/* ---- names and failures ------------------------------------------------------------------------------------ */

/* "x" of "x w b?", i = 0. The last one also stands for all that follow. */
static int input_name(const char *inputs, int i, const char **name)
{
    *name = inputs;
    for (; i > 0 && strchr(*name, ' '); i--)
        *name = strchr(*name, ' ') + 1;
    return (int)strcspn(*name, " ?.");
}

bool grad_wants(struct grad *g, int i)
{
    const char *name;
    const int length = input_name(g->node.op->inputs, i, &name);

    snprintf(g->label, sizeof g->label, "%.200s:d%.*s", g->node.name, length, name);
    return g->st == CLCNN_OK && i < g->node.n_in && g->wanted[i];
}

void grad_give(struct grad *g, int i, int value)
{
    g->dx[i] = value;
}

static int fail(struct grad *g, enum clcnn_status st)
{
    if (g->st == CLCNN_OK)
        g->st = st;
    return -1;
}

void grad_unsupported(struct grad *g, const char *what)
{
    if (g->st == CLCNN_OK)
        fail(g, clcnn_fail(g->err, CLCNN_E_UNSUPPORTED, "%s %s: no gradient %s", g->node.op->name,
                           g->node.name, what));
}

struct clcnn_shape grad_shape(const struct grad *g, int value)
{
    return value < 0 ? (struct clcnn_shape){0} : g->graph->values[value].shape;
}

/* The label, with a number where it is taken. */
static enum clcnn_status free_name(struct grad *g, char name[CLCNN_NAME_MAX])
{
    struct hash128 key;

    if (!map_reserve(&g->made))
        return clcnn_fail_mem(g->err, sizeof key);
    snprintf(name, CLCNN_NAME_MAX, "%s", g->label);
    for (int number = 2;; number++) {
        key = hash128_text(name);
        if (map_get(&g->made, key) < 0 && map_get(&g->graph->node_names, key) < 0)
            break;
        snprintf(name, CLCNN_NAME_MAX, "%.220s_%d", g->label, number);
    }
    map_put(&g->made, key, g->graph->n_nodes);
    return CLCNN_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------------------- */

void grad_outputs(struct grad *g, const struct op_def *op, const void *attrs, const int *in, int n_in,
                  int out[MAX_OUTPUTS])
{
    char name[CLCNN_NAME_MAX];
    _Alignas(8) unsigned char defaults[MOST_ATTRS] = {0};
    enum clcnn_status st = g->st;

    TRY(st);
    TRY(free_name(g, name));
    if (!attrs) {
        TRY(attrs_set(op, name, defaults, NULL, 0, g->err));
        attrs = defaults;
    }
    TRY(graph_append(g->graph, op, name, attrs, in, n_in, out, g->err));
    return;
done:
    out[0] = fail(g, st);
}

int grad_node(struct grad *g, const struct op_def *op, const void *attrs, const int *in, int n_in)
{
    int out[MAX_OUTPUTS];

    grad_outputs(g, op, attrs, in, n_in, out);
    return out[0];
}

int grad_of(struct grad *g, const struct op_def *op, int x)
{
    return grad_node(g, op, NULL, &x, 1);
}

int grad_of_two(struct grad *g, const struct op_def *op, int a, int b)
{
    return grad_node(g, op, NULL, (const int[]){a, b}, 2);
}

int grad_add(struct grad *g, int a, int b)
{
    return grad_of_two(g, &op_add, a, b);
}

int grad_sub(struct grad *g, int a, int b)
{
    return grad_of_two(g, &op_sub, a, b);
}

int grad_mul(struct grad *g, int a, int b)
{
    return grad_of_two(g, &op_mul, a, b);
}

int grad_div(struct grad *g, int a, int b)
{
    return grad_of_two(g, &op_div, a, b);
}

int grad_masked(struct grad *g, int dy, int m)
{
    return grad_of_two(g, &op_relu_grad, dy, m);
}

float *grad_constant(struct grad *g, const struct clcnn_shape *shape, int *value)
{
    if (g->st == CLCNN_OK)
        g->st = graph_owned_constant(g->graph, shape, value, g->err);
    if (g->st == CLCNN_OK)
        return g->graph->values[*value].owned;
    *value = -1;
    return NULL;
}

int grad_number(struct grad *g, double number)
{
    int value;
    float *data = grad_constant(g, &(struct clcnn_shape){.rank = 0}, &value);

    if (data)
        *data = (float)number;
    return value;
}

int grad_scale(struct grad *g, int x, double factor)
{
    return factor == 1.0 ? x : grad_mul(g, x, grad_number(g, factor));
}

int grad_plus(struct grad *g, int x, double number)
{
    return grad_add(g, x, grad_number(g, number));
}

/* ---- shapes ------------------------------------------------------------------------------------------------ */

static struct shape_attrs shape_attr(const struct clcnn_shape *shape)
{
    struct shape_attrs a = {.shape = {.n = shape->rank}};

    memcpy(a.shape.v, shape->dim, (size_t)shape->rank * sizeof *shape->dim);
    return a;
}

int grad_reshape(struct grad *g, int x, const struct clcnn_shape *shape)
{
    const struct clcnn_shape own = grad_shape(g, x);

    if (own.rank == shape->rank && shape_equal(&own, shape))
        return x;
    return grad_node(g, &op_reshape, (struct shape_attrs[]){shape_attr(shape)}, &x, 1);
}

int grad_expand(struct grad *g, int x, const struct clcnn_shape *shape)
{
    const struct clcnn_shape own = grad_shape(g, x);

    if (own.rank == shape->rank && shape_equal(&own, shape))
        return x;
    return grad_node(g, &op_expand, (struct shape_attrs[]){shape_attr(shape)}, &x, 1);
}

int grad_full(struct grad *g, const struct clcnn_shape *shape, double number)
{
    return grad_expand(g, grad_number(g, number), shape);
}

int grad_transpose(struct grad *g, int x, const int32_t *perm)
{
    struct axes_attrs a = {.axes = {.n = grad_shape(g, x).rank}};

    memcpy(a.axes.v, perm, (size_t)a.axes.n * sizeof *perm);
    return grad_node(g, &op_transpose, &a, &x, 1);
}

int grad_swap_last(struct grad *g, int x)
{
    const int rank = grad_shape(g, x).rank;
    int32_t perm[CLCNN_MAX_RANK];

    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return grad_transpose(g, x, perm);
}

int grad_range(struct grad *g, int x, int dim, int32_t start, int32_t count)
{
    if (grad_shape(g, x).dim[dim] == count)
        return x;
    const struct slice_attrs a = {
        .starts = {1, {start}}, .ends = {1, {start + count}}, .axes = {1, {dim}}, .steps = {1, {1}}};
    return grad_node(g, &op_slice, &a, &x, 1);
}

int grad_reduce(struct grad *g, const struct op_def *op, int x, unsigned dims, bool keep)
{
    struct reduce_attrs a = {.keepdims = keep};

    for (int32_t i = 0; i < grad_shape(g, x).rank; i++) {
        if (dims >> i & 1)
            a.axes.v[a.axes.n++] = i;
    }
    return a.axes.n ? grad_node(g, op, &a, &x, 1) : x;
}

int grad_sum_to(struct grad *g, int x, const struct clcnn_shape *shape)
{
    const struct clcnn_shape own = grad_shape(g, x);
    const int more = own.rank - shape->rank;
    unsigned dims = 0;

    for (int i = 0; i < own.rank; i++) {
        if (own.dim[i] != 1 && (i < more || shape->dim[i - more] == 1))
            dims |= 1u << i;
    }
    x = grad_reduce(g, &op_reduce_sum, x, dims, true);
    return g->st == CLCNN_OK ? grad_reshape(g, x, shape) : -1;
}

int grad_channels(struct grad *g, int vector, int rank)
{
    struct clcnn_shape shape = {.rank = rank - 1, .dim = {grad_shape(g, vector).dim[0]}};

    for (int i = 1; i < shape.rank; i++)
        shape.dim[i] = 1;
    return grad_reshape(g, vector, &shape);
}

int grad_sum_channels(struct grad *g, int x)
{
    const int planes =
        grad_reduce(g, &op_reduce_sum, x, ~3u, false); /* each is one walk, which all devices are good at */

    return grad_reduce(g, &op_reduce_sum, planes, 1u, false);
}

int grad_along(struct grad *g, int x, int dim, int matrix)
{
    struct clcnn_shape s = grad_shape(g, x), flat = {.rank = 3, .dim = {1, 1, 1}};

    if (g->st != CLCNN_OK)
        return -1;
    for (int i = 0; i < s.rank; i++)
        flat.dim[i < dim ? 0 : i == dim ? 1 : 2] *= s.dim[i];
    s.dim[dim] = grad_shape(g, matrix).dim[0];
    return grad_reshape(g, grad_of_two(g, &op_matmul, matrix, grad_reshape(g, x, &flat)), &s);
}
