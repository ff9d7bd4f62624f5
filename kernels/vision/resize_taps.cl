/* resize_taps.cl: resampling of 1 to 3 spatial dimensions by kernels of any width.
 *
 *   at = (i * mul + add) / div
 *   y[i] = sum over k of x[k] * W((k - at) * scale) / sum over k of W((k - at) * scale), dimension by dimension
 *
 * W is the triangle of linear, or the cubic of Keys with the slope `cubic` at 1. An index outside of the input is moved
 * to its edge, or left out with `exclude`. With CROP an `at` outside of the input gives the number `outside`.
 * Layouts: N,C,(D,)(H,)W with batch strides; struct resize_taps_args. A row is one (n, c, d, h) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: KIND (0: nearest by `rounding`, 1: linear, 2: cubic, the default), CROP (0, the default, or 1), WG, LANES,
 * ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) resize_taps_##x
#endif
#ifndef KIND
#define KIND 2
#endif
#ifndef CROP
#define CROP 0
#endif

/* Taps first to past - 1 of one dimension; the coordinate is low + part. total: the sum of their weights. */
struct FN(taps) {
    long low;
    int first, past;
    float part, total;
    bool outside;
};

float FN(weight)(struct FN(taps) t, long k, int d, const struct resize_taps_args *a)
{
    const float u = fabs(((float)(k - t.low) - t.part) * a->scale[d]), c = a->cubic;
    if (a->exclude && (k < 0 || k >= a->in[d]))
        return 0.0f;
    if (KIND == 0)
        return 1.0f;
    if (KIND == 1)
        return u < 1.0f ? 1.0f - u : 0.0f;
    return u <= 1.0f  ? ((c + 2.0f) * u - (c + 3.0f)) * u * u + 1.0f
           : u < 2.0f ? ((c * u - 5.0f * c) * u + 8.0f * c) * u - 4.0f * c
                      : 0.0f;
}

/* How a coordinate becomes an index: floor, round_prefer_floor, round_prefer_ceil, ceil. */
int FN(rounded)(long rest, long div, int rounding)
{
    return rounding == 0 ? 0 : rounding == 1 ? 2 * rest > div : rounding == 2 ? 2 * rest >= div : rest > 0;
}

struct FN(taps) FN(taps_of)(long i, int d, const struct resize_taps_args *a)
{
    const long at = i * a->mul[d] + a->add[d], div = a->div[d];
    struct FN(taps) t;
    t.low = at / div - (at % div < 0);
    const long rest = at - t.low * div;
    t.part = (float)rest / (float)div;
    t.outside = CROP && (at < 0 || at > (a->in[d] - 1) * div);
    t.total = 1.0f;
    if (KIND == 0) {
        t.first = (int)clamp(t.low + FN(rounded)(rest, div, a->rounding), 0L, (long)a->in[d] - 1);
        t.past = t.first + 1;
        return t;
    }
    const float reach = (float)KIND / a->scale[d];
    t.first = (int)(t.low + (long)ceil(t.part - reach));
    t.past = (int)(t.low + (long)floor(t.part + reach)) + 1;
    t.total = 0.0f;
    for (int k = t.first; k < t.past; k++)
        t.total += FN(weight)(t, k, d, a);
    return t;
}

/* The blend of one row of the input. */
float FN(row)(SRC x, struct FN(taps) t, const struct resize_taps_args *a)
{
    float sum = 0.0f;
    for (int k = t.first; k < t.past; k++) {
        const float w = FN(weight)(t, k, 2, a);
        if (w != 0.0f)
            sum += w * x[clamp(k, 0, a->in[2] - 1)];
    }
    return sum / t.total;
}

float FN(blend)(SRC x, struct FN(taps) d, struct FN(taps) h, struct FN(taps) w, const struct resize_taps_args *a)
{
    float sum = 0.0f;
    for (int i = d.first; i < d.past; i++) {
        const float wd = FN(weight)(d, i, 0, a);
        float plane = 0.0f;
        for (int j = h.first; j < h.past && wd != 0.0f; j++) {
            const float wh = FN(weight)(h, j, 1, a);
            const long at = (long)clamp(i, 0, a->in[0] - 1) * a->in[1] + clamp(j, 0, a->in[1] - 1);
            if (wh != 0.0f)
                plane += wh * FN(row)(x + at * a->in[2], w, a);
        }
        if (wd != 0.0f)
            sum += wd * (plane / h.total);
    }
    return sum / d.total;
}

void FN(body)(ulong group, SRC x, DST y, const struct resize_taps_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest;
        const struct FN(taps) d = FN(taps_of)(od, 0, a), h = FN(taps_of)(oh, 1, a);
        SRC xc = x + n * a->x_n + c * a->in[0] * a->in[1] * a->in[2];
        DST yr = y + n * a->y_n + ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
        FOR_COLUMNS(i, first, a->out[2])
        {
            const struct FN(taps) w = FN(taps_of)(i, 2, a);
            yr[i] = d.outside || h.outside || w.outside ? a->outside : FN(blend)(xc, d, h, w, a);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct resize_taps_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
