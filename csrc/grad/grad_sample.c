/* grad_sample.c: samples between the elements of a map. Each operator is written down as a formula of gathers, products and sums, of
 * which the gradient is taken: with respect to the map, to coordinates, to weights. */
#include <string.h>

#include "grad/grad.h"

#define DY (g->dy[0])
#define MOST_TAPS 4 /* of a sample along one dimension */

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };

/* What a sample reads along one dimension: whole coordinates, as floats, and what each counts for; 0 where it lies outside. */
struct taps {
    int n, at[MOST_TAPS], weight[MOST_TAPS];
};

/* ---- formulas ----------------------------------------------------------------------------------------------- */

static int clipped(struct grad *g, int x, double low, double high)
{
    return grad_node(g, &op_clip, &(struct eltwise_attrs){(float)low, (float)high, 0}, &x, 1);
}

/* low - x */
static int from(struct grad *g, double low, int x)
{
    return grad_sub(g, grad_number(g, low), x);
}

/* 1 where a <= b, else 0. */
static int not_above(struct grad *g, int a, int b)
{
    return grad_cast(g, grad_of_two(g, &op_less_equal, a, b), CLCNN_FLOAT32);
}

/* 1 where low <= x <= high, else 0. */
static int inside(struct grad *g, int x, double low, double high)
{
    return grad_mul(g, not_above(g, grad_number(g, low), x), not_above(g, x, grad_number(g, high)));
}

/* Mirrored at the outermost elements' centres or edges until it lies between them. */
static int reflected(struct grad *g, int at, int32_t size, bool centres)
{
    const double low = centres ? 0.0 : -0.5, span = centres ? size - 1 : size;

    if (span == 0.0)
        return grad_scale(g, at, 0.0);
    const int way = grad_of(g, &op_abs, grad_plus(g, at, -low));
    const int two = grad_number(g, 2.0 * span);
    const int part = grad_sub(
        g, way, grad_mul(g, grad_of(g, &op_floor, grad_div(g, way, two)), two)); /* of there and back */
    const int back = from(g, span, grad_of(g, &op_abs, from(g, span, part)));
    return clipped(g, grad_plus(g, back, low), 0.0, size - 1);
}

static int moved(struct grad *g, int at, int32_t size, const struct grid_sample_attrs *a)
{
    if (a->padding_mode == BORDER)
        return clipped(g, at, 0.0, size - 1);
    return a->padding_mode == REFLECTION ? reflected(g, at, size, a->align_corners) : at;
}

/* Keys' cubic with -0.75 at a distance, a polynomial c0 + c1 u + c2 u^2 + c3 u^3. */
static int polynomial(struct grad *g, int u, const double c[4])
{
    int sum = grad_plus(g, grad_scale(g, u, c[3]), c[2]);

    sum = grad_plus(g, grad_mul(g, sum, u), c[1]);
    return grad_plus(g, grad_mul(g, sum, u), c[0]);
}

static void cubic_taps(struct grad *g, struct taps *t, int at, int32_t size,
                       const struct grid_sample_attrs *a)
{
    static const double near[4] = {1.0, 0.0, -2.25, 1.25}, far[4] = {3.0, -6.0, 3.75, -0.75};
    const int low = grad_of(g, &op_floor, at), part = grad_sub(g, at, low);
    const int distance[MOST_TAPS] = {grad_plus(g, part, 1.0), part, from(g, 1.0, part), from(g, 2.0, part)};

    t->n = MOST_TAPS;
    for (int i = 0; i < MOST_TAPS; i++) {
        t->at[i] = moved(g, grad_plus(g, low, i - 1), size, a);
        t->weight[i] = polynomial(g, distance[i], i == 0 || i == 3 ? far : near);
    }
}

static void find_taps(struct grad *g, struct taps *t, int at, int32_t size, const struct grid_sample_attrs *a)
{
    if (a->mode == CUBIC) {
        cubic_taps(g, t, at, size, a);
    } else {
        at = moved(g, at, size, a);
        const int low = grad_of(g, a->mode == NEAREST ? &op_round : &op_floor, at),
                  part = grad_sub(g, at, low);
        *t = a->mode == NEAREST ? (struct taps){1, {low}, {grad_number(g, 1.0)}}
                                : (struct taps){2, {low, grad_plus(g, low, 1.0)}, {from(g, 1.0, part), part}};
    }
    for (int i = 0; i < t->n; i++) {
        t->weight[i] = grad_mul(g, t->weight[i], inside(g, t->at[i], 0.0, size - 1));
        t->at[i] = grad_cast(g, clipped(g, t->at[i], 0.0, size - 1), CLCNN_INT64);
    }
}

/* ---- samples ------------------------------------------------------------------------------------------------ */

/* A value as a matrix of `columns`. */
static int matrix(struct grad *g, int x, int32_t columns)
{
    const struct clcnn_shape s = grad_shape(g, x);

    return grad_reshape(
        g, x, &(struct clcnn_shape){.rank = 2, .dim = {(int32_t)(shape_count(&s) / columns), columns}});
}

/* x [N, C, *spatial] as rows of channels, [N * spatial, C]. */
static int rows_of(struct grad *g, int x)
{
    const struct clcnn_shape s = grad_shape(g, x);
    int32_t perm[CLCNN_MAX_RANK] = {0};

    for (int i = 1; i < s.rank; i++)
        perm[i] = i == s.rank - 1 ? 1 : i + 1;
    return matrix(g, grad_transpose(g, x, perm), s.dim[1]);
}

/* Samples of x, [number, C], which add up what their taps read, or take the largest of it. The taps of the spatial dimensions, and
 * `item`, the number of each sample's item, broadcast to one shape. */
static int sampled(struct grad *g, int x, int item, const struct taps *taps, const struct op_def *join)
{
    const struct clcnn_shape s = grad_shape(g, x);
    const int rows = rows_of(g, x);
    int y = -1, combinations = 1;
    int32_t elements = 1;

    for (int k = 0; k < s.rank - 2; k++) {
        combinations *= taps[k].n;
        elements *= s.dim[k + 2];
    }
    for (int c = 0; g->st == CLCNN_OK && c < combinations; c++) {
        int at = grad_mul(g, item, grad_whole(g, elements)), weight = -1;
        int64_t step = elements;
        for (int k = 0, rest = c; k < s.rank - 2; rest /= taps[k++].n) {
            const int i = rest % taps[k].n;
            step /= s.dim[k + 2];
            at = grad_add(g, at, grad_mul(g, taps[k].at[i], grad_whole(g, step)));
            weight = weight < 0 ? taps[k].weight[i] : grad_mul(g, weight, taps[k].weight[i]);
        }
        const struct clcnn_shape all = grad_shape(g, at);
        const struct clcnn_shape line = {.rank = 1, .dim = {(int32_t)shape_count(&all)}};
        const int in[] = {rows, grad_reshape(g, at, &line)};
        const int found = grad_node(g, &op_gather, &(struct dim_attrs){0}, in, 2);
        const int part = grad_mul(g, found, matrix(g, weight, 1));
        y = y < 0 ? part : grad_of_two(g, join, y, part);
    }
    return y;
}

/* Gradients of a node's inputs by way of y, the formula that stands for its result. */
static void give_through(struct grad *g, int first, int y)
{
    int wrt[5] = {0}, at[5], dx[5], count = 0;

    for (int i = 0; i < g->node.n_in && i < 5; i++) {
        if (g->wanted[i]) {
            at[count] = i;
            wrt[count++] = g->node.in[i];
        }
    }
    grad_through(g, first, y, DY, wrt, count, dx);
    for (int i = 0; i < count; i++)
        grad_give(g, at[i], dx[i]);
}

void grad_grid_sample(struct grad *g)
{
    const struct grid_sample_attrs *a = g->node.attrs;
    const int first = g->graph->n_nodes, x = g->node.in[0], grid = g->node.in[1];
    const struct clcnn_shape s = grad_shape(g, x), y = grad_shape(g, DY);
    struct clcnn_shape places = y, back = y;
    int32_t perm[CLCNN_MAX_RANK] = {0};
    struct taps taps[3];
    const int n = s.rank - 2;

    grad_wants(g, 0);
    places.rank = back.rank = n + 1; /* [N, *out] */
    memmove(places.dim + 1, y.dim + 2, (size_t)n * sizeof *y.dim);
    for (int k = 0; k < n; k++) {
        const int32_t size = s.dim[k + 2];
        const int own = grad_reshape(g, grad_range(g, grid, n + 1, n - 1 - k, 1), &places);
        const int at = a->align_corners
                           ? grad_scale(g, grad_plus(g, own, 1.0), (size - 1) / 2.0)
                           : grad_plus(g, grad_scale(g, grad_plus(g, own, 1.0), size / 2.0), -0.5);
        find_taps(g, &taps[k], at, size, a);
    }
    const int found = sampled(g, x, grad_counting(g, s.dim[0], 1, 0, n + 1), taps, &op_add);
    back = places; /* [N, *out, C] */
    back.dim[back.rank++] = s.dim[1];
    for (int i = 1; i < n + 2; i++)
        perm[i] = i == 1 ? n + 1 : i - 1;
    give_through(g, first, grad_transpose(g, grad_reshape(g, found, &back), perm));
}

/* ---- regions of interest ------------------------------------------------------------------------------------ */

/* Numbers of all regions, as [R, 1, 1]. */
static int corner(struct grad *g, int column)
{
    const struct roi_attrs *a = g->node.attrs;
    const int rois = g->node.in[1];
    const struct clcnn_shape shape = {.rank = 3, .dim = {grad_shape(g, rois).dim[0], 1, 1}};
    const int own =
        grad_scale(g, grad_reshape(g, grad_range(g, rois, 1, column, 1), &shape), (double)a->spatial_scale);

    return a->coordinates == 0 ? grad_plus(g, own, -0.5) : own;
}

/* The taps of one dimension k (0: height), along dimension 1 + k of [R, height, width] samples. */
static void region_taps(struct grad *g, struct taps *t, int k)
{
    static const struct grid_sample_attrs within = {LINEAR, BORDER, 0};
    const struct roi_attrs *a = g->node.attrs;
    const int32_t size = grad_shape(g, g->node.in[0]).dim[2 + k], bins = a->output_size.v[k];
    struct clcnn_shape line = {.rank = 3, .dim = {1, 1, 1}};
    int shares;

    line.dim[1 + k] = bins * a->sampling_ratio;
    float *share = grad_constant(g, &line, &shares); /* of the region's extent */
    for (int i = 0; share && i < line.dim[1 + k]; i++)
        share[i] = ((float)i + 0.5f) / (float)line.dim[1 + k];
    const int begin = corner(g, 1 - k);
    int extent = grad_sub(g, corner(g, 3 - k), begin);
    if (a->coordinates != 0)
        extent = grad_of_two(g, &op_maximum, extent, grad_number(g, 1.0));
    const int at = grad_add(g, begin, grad_mul(g, extent, shares));
    find_taps(g, t, at, size, &within);
    for (int i = 0; i < t->n; i++)
        t->weight[i] = grad_mul(g, t->weight[i], inside(g, at, -1.0, size));
}

void grad_roi_align(struct grad *g)
{
    const struct roi_attrs *a = g->node.attrs;
    const int first = g->graph->n_nodes, r = a->sampling_ratio;
    const struct clcnn_shape y = grad_shape(g, DY);
    const struct clcnn_shape item = {.rank = 3, .dim = {y.dim[0], 1, 1}, .dtype = CLCNN_INT64};
    const struct clcnn_shape bins = {.rank = 6, .dim = {y.dim[0], y.dim[2], r, y.dim[3], r, y.dim[1]}};
    struct taps taps[2];

    if (r == 0) {
        grad_unsupported(g, "with sampling_ratio=0, where regions tell how many samples there are");
        return;
    }
    grad_wants(g, 0);
    region_taps(g, &taps[0], 0);
    region_taps(g, &taps[1], 1);
    const int items = grad_reshape(g, grad_cast(g, g->node.in[2], CLCNN_INT64), &item);
    const int found = sampled(g, g->node.in[0], items, taps, a->mode == 0 ? &op_add : &op_maximum);
    const int joined = grad_reduce(g, a->mode == 0 ? &op_reduce_mean : &op_reduce_max,
                                   grad_reshape(g, found, &bins), 1u << 2 | 1u << 4, false);
    give_through(g, first, grad_transpose(g, joined, (const int32_t[]){0, 3, 1, 2}));
}

/* ---- deformable convolution --------------------------------------------------------------------------------- */

/* Where taps lie that are not moved, along dimension k (0: height), as it broadcasts to [N * groups, height, width of filters, height,
 * width of results]. */
static int unmoved(struct grad *g, const struct conv_attrs *a, const struct clcnn_shape *w,
                   const struct clcnn_shape *y, int k)
{
    struct clcnn_shape shape = {.rank = 5, .dim = {1, 1, 1, 1, 1}};
    int value;

    shape.dim[1 + k] = w->dim[2 + k];
    shape.dim[3 + k] = y->dim[2 + k];
    float *data = grad_constant(g, &shape, &value);
    for (int tap = 0; data && tap < w->dim[2 + k]; tap++)
        for (int o = 0; o < y->dim[2 + k]; o++)
            *data++ = (float)(o * a->stride.v[k] - a->padding.v[k] + tap * a->dilation.v[k]);
    return value;
}

void grad_deform_conv(struct grad *g)
{
    static const struct grid_sample_attrs within = {LINEAR, ZEROS, 0};
    const struct deform_attrs *a = g->node.attrs;
    const int first = g->graph->n_nodes, *in = g->node.in, parts = a->offset_groups;
    const struct clcnn_shape x = grad_shape(g, in[0]), w = grad_shape(g, in[1]), y = grad_shape(g, DY);
    const int32_t taps_of = w.dim[2] * w.dim[3], own = x.dim[1] / parts, out = y.dim[2] * y.dim[3];
    const struct clcnn_shape place = {.rank = 5,
                                      .dim = {x.dim[0] * parts, w.dim[2], w.dim[3], y.dim[2], y.dim[3]}};
    const struct clcnn_shape moves = {.rank = 4, .dim = {place.dim[0], taps_of, 2, out}};
    const struct clcnn_shape maps = {.rank = 4, .dim = {place.dim[0], own, x.dim[2], x.dim[3]}};
    struct taps taps[2];

    grad_wants(g, 0);
    const int offset = grad_reshape(g, in[2], &moves);
    for (int k = 0; k < 2; k++) {
        const int by = grad_reshape(g, grad_range(g, offset, 2, k, 1), &place);
        find_taps(g, &taps[k], grad_add(g, unmoved(g, &a->conv, &w, &y, k), by), x.dim[2 + k], &within);
    }
    int found =
        sampled(g, grad_reshape(g, in[0], &maps), grad_counting(g, place.dim[0], 1, 0, 5), taps, &op_add);
    if (in[4] >= 0)
        found = grad_mul(g, found, matrix(g, in[4], 1));
    /* [N * parts, taps, out, channels of a part] to columns [N, groups, channels of a group * taps, out] */
    const struct clcnn_shape sample = {.rank = 4, .dim = {place.dim[0], taps_of, out, own}};
    const struct clcnn_shape columns = {.rank = 4,
                                        .dim = {x.dim[0], a->conv.groups, w.dim[1] * taps_of, out}};
    const struct clcnn_shape filters = {
        .rank = 3, .dim = {a->conv.groups, w.dim[0] / a->conv.groups, w.dim[1] * taps_of}};
    found = grad_transpose(g, grad_reshape(g, found, &sample), (const int32_t[]){0, 3, 1, 2});
    const int product =
        grad_of_two(g, &op_matmul, grad_reshape(g, in[1], &filters), grad_reshape(g, found, &columns));
    int result = grad_reshape(g, product, &y);
    if (in[3] >= 0)
        result = grad_add(g, result, grad_channels(g, in[3], 4));
    give_through(g, first, result);
}
