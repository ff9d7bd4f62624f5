/* grid_sample_ref.cl: x at the places that a grid gives, as torch.nn.functional.grid_sample defines it.
 *
 *   at = ((g + 1) * size - 1) / 2, or (g + 1) / 2 * (size - 1) with ALIGN, for each coordinate g of grid[n][o]
 *   y[n][c][o] = x[n][c](at), blended from the 2 or 4 elements around in each dimension, or the nearest one
 *
 * Outside x is 0 (PADDING 0), repeats its edge (1), or is mirrored (2); cubic asks that of every element, the others of
 * the coordinate. The cubic is that of Keys with slope -0.75. A coordinate that is NaN lies outside.
 * Layouts: N,C,(D,)H,W and N,(D,)H,W,coordinates (x first) with batch strides; struct grid_args.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: KIND (0: linear, the default, 1: nearest, 2: cubic), PADDING (0 to 2), ALIGN (0 or 1), DIMS (2, the default,
 * or 3), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) grid_sample_ref_##x
#endif
#ifndef KIND
#define KIND 0
#endif
#ifndef PADDING
#define PADDING 0
#endif
#ifndef ALIGN
#define ALIGN 0
#endif
#ifndef DIMS
#define DIMS 2
#endif

/* A coordinate brought into the input. */
float FN(inside)(float at, int size)
{
    if (PADDING == 0)
        return at;
    if (PADDING == 2) {
        const float low = ALIGN ? 0.0f : -0.5f, span = (float)(ALIGN ? size - 1 : size);
        const float from = fabs(at - low), extra = span > 0.0f ? fmod(from, span) : 0.0f;
        const float flips = span > 0.0f ? floor(from / span) : 0.0f;
        at = span == 0.0f ? 0.0f : fmod(flips, 2.0f) == 0.0f ? extra + low : span - extra + low;
    }
    return at >= 0.0f ? fmin(at, (float)(size - 1)) : 0.0f;
}

/* Where the taps of a dimension begin, and the weight of each. */
struct FN(taps) {
    int first;
    float weight[4];
};

struct FN(taps) FN(taps_of)(float g, int size)
{
    float at = ALIGN ? (g + 1.0f) * 0.5f * (float)(size - 1) : ((g + 1.0f) * (float)size - 1.0f) * 0.5f;
    struct FN(taps) t;
    at = KIND == 2 ? at : FN(inside)(at, size);
    at = isnan(at) ? -1e9f : clamp(at, -1e9f, 1e9f);
    const float low = KIND == 1 ? rint(at) : floor(at), part = at - low;
    t.first = (int)low - (KIND == 2);
    t.weight[0] = KIND == 1 ? 1.0f : 1.0f - part;
    t.weight[1] = part;
    if (KIND == 2) {
        const float c = -0.75f, far = 1.0f + part, other = 1.0f - part, last = 2.0f - part;
        t.weight[0] = ((c * far - 5.0f * c) * far + 8.0f * c) * far - 4.0f * c;
        t.weight[1] = ((c + 2.0f) * part - (c + 3.0f)) * part * part + 1.0f;
        t.weight[2] = ((c + 2.0f) * other - (c + 3.0f)) * other * other + 1.0f;
        t.weight[3] = ((c * last - 5.0f * c) * last + 8.0f * c) * last - 4.0f * c;
    }
    return t;
}

/* The element that index i of a dimension stands for, -1 for none. */
int FN(index)(int i, int size)
{
    if (KIND == 2)
        i = (int)FN(inside)((float)i, size);
    return i >= 0 && i < size ? i : -1;
}

void FN(body)(ulong group, SRC x, SRC grid, DST y, const struct grid_args *a)
{
    const int taps = KIND == 1 ? 1 : KIND == 0 ? 2 : 4;
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest, line = (od * a->out[1] + oh) * a->out[2];
        SRC xc = x + n * a->x_n + c * a->in[0] * a->in[1] * a->in[2];
        FOR_COLUMNS(ow, first, a->out[2])
        {
            SRC g = grid + n * a->grid_n + (line + ow) * DIMS;
            const struct FN(taps) w = FN(taps_of)(g[0], a->in[2]), h = FN(taps_of)(g[1], a->in[1]);
            struct FN(taps) d;
            d.first = 0;
            d.weight[0] = 1.0f;
            if (DIMS == 3)
                d = FN(taps_of)(g[DIMS - 1], a->in[0]);
            float sum = 0.0f;
            for (int z = 0; z < (DIMS == 3 ? taps : 1); z++)
                for (int v = 0; v < taps; v++) {
                    const int zi = DIMS == 3 ? FN(index)(d.first + z, a->in[0]) : 0;
                    const int vi = FN(index)(h.first + v, a->in[1]);
                    float some = 0.0f;
                    for (int u = 0; u < taps; u++) {
                        const int ui = FN(index)(w.first + u, a->in[2]);
                        if (zi >= 0 && vi >= 0 && ui >= 0)
                            some += w.weight[u] * xc[((long)zi * a->in[1] + vi) * a->in[2] + ui];
                    }
                    sum += d.weight[z] * h.weight[v] * some;
                }
            y[n * a->y_n + c * a->out[0] * a->out[1] * a->out[2] + line + ow] = sum;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC grid, ulong grid_off, DST y, ulong y_off, const struct grid_args a)
{
    FN(body)(GROUP, x + x_off, grid + grid_off, y + y_off, &a);
}
