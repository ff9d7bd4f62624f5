/* resize_taps.cl: resampling of 1 to 3 spatial dimensions by kernels of any width.
 *
 *   at = (i * mul + add) / div
 *   y[i] = sum over k of x[k] * W((k - at) * scale) / sum over k of W((k - at) * scale), dimension by dimension
 *
 * W is the triangle of linear, or the cubic of Keys with the slope `cubic` at 1. An index outside of the input is moved
 * to its edge, or left out with `exclude`. With CROP an `at` outside of the input gives the number `outside`.
 * Layouts: N,C,(D,)(H,)W with batch strides; a row is one (n, d, h) of the output for BLOCK channels, which share
 * what is worked out for its columns.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: DIMS (spatial dimensions, 1 to 3; default 3), BLOCK (default 1), WG, LANES, ELEMS, RUNS, INDEX (rows.clh),
 * KIND, SPAN, CROP, COORD (resize_taps.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) resize_taps_##x
#endif
#ifndef DIMS
#define DIMS 3
#endif
#ifndef BLOCK
#define BLOCK 1
#endif
#include "vision/resize_taps.clh"

/* An infinite value with weight 0 counts for nothing. */
float FN(times)(float w, float v)
{
    return w != 0.0f ? w * v : 0.0f;
}

float FN(row)(SRC x, const struct FN(taps) *wide, const struct resize_taps_args *a)
{
    float sum = 0.0f;
    for (int m = 0; m < SPAN; m++)
        sum += FN(times)(WEIGHT(wide, m), x[INDEX_OF(wide, m)]);
    return sum / wide->total;
}

float FN(plane)(SRC x, const struct FN(taps) *high, const struct FN(taps) *wide, const struct resize_taps_args *a)
{
#if DIMS > 1
    float sum = 0.0f;
    for (int m = 0; m < SPAN; m++)
        sum += FN(times)(WEIGHT(high, m), FN(row)(x + (long)INDEX_OF(high, m) * a->in[2], wide, a));
    return sum / high->total;
#else
    return FN(row)(x, wide, a);
#endif
}

float FN(blend)(SRC x, const struct FN(taps) *deep, const struct FN(taps) *high, const struct FN(taps) *wide,
                const struct resize_taps_args *a)
{
#if DIMS > 2
    float sum = 0.0f;
    for (int m = 0; m < SPAN; m++)
        sum += FN(times)(WEIGHT(deep, m), FN(plane)(x + (long)INDEX_OF(deep, m) * a->in[1] * a->in[2], high, wide, a));
    return sum / deep->total;
#else
    return FN(plane)(x, high, wide, a);
#endif
}

void FN(body)(ulong group, SRC x, DST y, const struct resize_taps_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const int blocks = (a->c + BLOCK - 1) / BLOCK;
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(block, rest, blocks);
        const long n = rest, plane = (long)a->in[0] * a->in[1] * a->in[2];
        const struct FN(taps) deep = FN(taps_of)(od, 0, a), high = FN(taps_of)(oh, 1, a);
        const int past = min(a->c, ((int)block + 1) * BLOCK);
        FOR_COLUMNS(i, first, a->out[2])
        {
            const struct FN(taps) wide = FN(taps_of)(i, 2, a);
            const bool outside = deep.outside || high.outside || wide.outside;
            for (int c = (int)block * BLOCK; c < past; c++)
                y[n * a->y_n + (((long)c * a->out[0] + od) * a->out[1] + oh) * a->out[2] + i] =
                    outside ? a->outside : FN(blend)(x + n * a->x_n + c * plane, &deep, &high, &wide, a);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct resize_taps_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
