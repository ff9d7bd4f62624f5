/* roi_align_blocked.cl: regions of interest, sampled between elements into bins (roi_align_ref.cl), on channel blocks,
 * for CPU devices.
 *
 * A work-item takes some blocks of channels of a region. Where the samples of a row and of a column lie is worked out
 * once for all of them; sums are in the order of roi_align_ref.cl.
 * Layouts: x [ceil(C/V)][H][W][V], y [ceil(C/V)][out][V] with batch strides; lanes of y past C are zeros.
 * Index map: group = region * parts + part. Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; MOST (0, the default, or 1); I (type of batch_indices: long, the default, or
 * int). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/types.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) roi_align_blocked_##x
#endif
#include "vision/roi_align.clh"
#ifndef MOST
#define MOST 0
#endif
#ifndef I
#define I long
#endif
#define KEPT 128 /* samples along a dimension whose places are kept */

/* Where a sample reads along a dimension: two neighbours and the second one's share. */
struct FN(tap) {
    int low, high;
    float part;
    bool inside;
};

/* Samples of a region along a dimension: `many` in each bin of size `bin`, from `first` on. */
struct FN(side) {
    float first, bin;
    int many, size;
};

struct FN(tap) FN(tap_of)(int o, int i, const struct FN(side) *s)
{
    float at = s->first + (float)o * s->bin + ((float)i + 0.5f) * s->bin / (float)s->many;
    struct FN(tap) t;
    t.inside = at >= -1.0f && at <= (float)s->size;
    at = t.inside ? fmax(at, 0.0f) : 0.0f;
    t.low = min((int)at, s->size - 1);
    t.high = min(t.low + 1, s->size - 1);
    t.part = t.low == s->size - 1 ? 0.0f : at - (float)t.low;
    return t;
}

/* The larger one; NaN wins. */
FV FN(larger)(FV a, FV b)
{
    return select(b, a, (a > b) | isnan(a));
}

/* The samples of a bin, before they are divided by their number. taps: of kept columns, from the bin's first on, or
 * NULL. */
FV FN(bin)(SRC xb, int oh, int ow, const struct FN(side) *high, const struct FN(side) *wide, const struct FN(tap) *taps)
{
    FV all = 0.0f;
    bool seen = false;
    for (int i = 0; i < high->many; i++) {
        const struct FN(tap) h = FN(tap_of)(oh, i, high);
        SRC low = xb + (long)h.low * wide->size * V;
        SRC up = xb + (long)h.high * wide->size * V;
        for (int j = 0; j < wide->many; j++) {
            const struct FN(tap) w = taps ? taps[j] : FN(tap_of)(ow, j, wide);
            const FV a = (1.0f - h.part) * (1.0f - w.part) * LOADV(low, w.low * V);
            const FV b = (1.0f - h.part) * w.part * LOADV(low, w.high * V);
            const FV c = h.part * (1.0f - w.part) * LOADV(up, w.low * V);
            const FV d = h.part * w.part * LOADV(up, w.high * V);
            const bool inside = h.inside && w.inside;
#if MOST
            const FV v = inside ? FN(larger)(FN(larger)(a, b), FN(larger)(c, d)) : (FV)0.0f;
            all = seen ? FN(larger)(all, v) : v;
#else
            all += inside ? (a + b) + (c + d) : (FV)0.0f;
#endif
            seen = true;
        }
    }
    return all;
}

struct FN(side) FN(side_of)(float first, float past, int d, const struct roi_args *a)
{
    struct FN(side) s;
    s.first = first * a->scale - a->offset;
    const float length = past * a->scale - a->offset - s.first;
    s.bin = (a->least ? fmax(length, 1.0f) : length) / (float)a->out[d];
    s.many = FN(samples_of)(s.bin, a);
    s.size = a->in[d];
    return s;
}

void FN(body)(ulong group, SRC x, SRC rois, SRC_OF(I) batch_indices, DST y, const struct roi_args *args)
{
    const struct roi_args copy = *args, *a = &copy; /* stores of y cannot change it */
    const int blocks = (a->c + V - 1) / V, parts = (int)a->pieces, bins = a->out[0] * a->out[1];
    const long r = (long)(group / parts), item = batch_indices[r];
    const int part = (int)(group % parts), first = blocks * part / parts, past = blocks * (part + 1) / parts;
    SRC roi = rois + r * a->roi_n;
    const struct FN(side) high = FN(side_of)(roi[1], roi[3], 0, a), wide = FN(side_of)(roi[0], roi[2], 1, a);
    const bool known = item >= 0 && item < a->n, kept = wide.many <= KEPT / a->out[1];
    struct FN(tap) taps[KEPT];
    for (int i = 0; kept && i < a->out[1] * wide.many; i++)
        taps[i] = FN(tap_of)(i / wide.many, i % wide.many, &wide);
    const float count = fmax((float)high.many * (float)wide.many, 1.0f);
    for (int block = first; block < past; block++) {
        SRC xb = x + (known ? item * a->x_n : 0) + (long)block * a->in[0] * a->in[1] * V;
        DST yb = y + r * a->y_n + (long)block * bins * V;
        const IV live = LANES_V < (IV)(a->c - block * V);
        for (int o = 0; o < bins; o++) {
            const int oh = o / a->out[1], ow = o - oh * a->out[1];
            FV v = known ? FN(bin)(xb, oh, ow, &high, &wide, kept ? taps + ow * wide.many : 0) : (FV)NAN;
            if (!MOST)
                v /= count;
            STOREV(select((FV)0.0f, v, live), yb, (long)o * V);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC rois, ulong rois_off, SRC_OF(I) batch_indices, ulong batch_indices_off, DST y,
                ulong y_off, const struct roi_args a)
{
    FN(body)(GROUP, x + x_off, rois + rois_off, batch_indices + batch_indices_off, y + y_off, &a);
}
