/* resize_ref.cl: resampling of 1 to 3 spatial dimensions, nearest or (multi)linear.
 *
 * Output index i of a dimension reads at (i * mul + add) / div, exact in integers: the host has put the
 * coordinate rule and the rounding of `nearest` into the three numbers. Linear clamps the coordinate to
 * the input, and takes x[low] * (1 - part) + x[low + 1] * part in each dimension.
 * Layouts: N,C,(D,)(H,)W with batch strides; a row is one (n, d, h) of the output for `block` channels,
 * which share what is worked out for its columns.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: LINEAR (0: nearest, 1: linear), DIMS (spatial dimensions, 1 to 3; default 3), COORD (int where
 * every i * mul + add fits, else long), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) resize_ref_##x
#endif
#ifndef LINEAR
#define LINEAR 0
#endif
#ifndef COORD
#define COORD long
#endif
#ifndef DIMS
#define DIMS 3
#endif

/* Where one output index reads: two neighbours (equal ones for nearest) and the second one's share. */
struct FN(tap) {
    int low, high;
    float part;
};

struct FN(tap) FN(tap_of)(long i, int d, const struct resize_args *a)
{
    const COORD div = (COORD)a->div[d], last = a->in[d] - 1;
    const COORD at = (COORD)i * (COORD)a->mul[d] + (COORD)a->add[d];
    const COORD inside = at < 0 ? 0 : at, low = min(inside / div, last);
    struct FN(tap) t;
    t.low = (int)low;
#if LINEAR
    t.high = (int)min((COORD)(low + 1), last);
    t.part = low == last ? 0.0f : (float)(inside - low * div) / (float)div;
#else
    t.high = t.low;
    t.part = 0.0f;
#endif
    return t;
}

/* Columns of this work-item in one channel: from rows 0 to 3 of x (low and high of h, then of d) to row y. */
void FN(columns)(SRC x, const long *row, const float *part, const int *low, const int *high, const float *part_w,
                 long first, DST y, int width)
{
    SRC x0 = x + row[0];
    SRC x1 = x + row[1];
    SRC x2 = x + row[2];
    SRC x3 = x + row[3];
    FOR_COLUMNS(i, first, width)
    {
        const int e = (int)SLOT_OF(i, first), l = low[e];
#if LINEAR
        const int h = high[e];
        const float w = part_w[e];
        float v = x0[l] * (1.0f - w) + x0[h] * w;
        if (DIMS > 1)
            v = v * (1.0f - part[0]) + (x1[l] * (1.0f - w) + x1[h] * w) * part[0];
        if (DIMS > 2) {
            const float deep = x2[l] * (1.0f - w) + x2[h] * w, deeper = x3[l] * (1.0f - w) + x3[h] * w;
            v = v * (1.0f - part[1]) + (deep * (1.0f - part[0]) + deeper * part[0]) * part[1];
        }
        y[i] = v;
#else
        y[i] = x0[l];
#endif
    }
}

void FN(body)(ulong group, SRC x, DST y, const struct resize_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const int blocks = (a->c + a->block - 1) / a->block;
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(block, rest, blocks);
        const long n = rest, plane = (long)a->in[1] * a->in[2];
        const struct FN(tap) d = FN(tap_of)(od, 0, a), h = FN(tap_of)(oh, 1, a);
        const long h_low = (long)h.low * a->in[2], h_high = (long)h.high * a->in[2];
        const long from[4] = {d.low * plane + h_low, d.low * plane + h_high, d.high * plane + h_low,
                              d.high * plane + h_high};
        const float part[2] = {h.part, d.part};
        int low[ELEMS], high[ELEMS];
        float part_w[ELEMS];
        FOR_COLUMNS(i, first, a->out[2])
        {
            const struct FN(tap) w = FN(tap_of)(i, 2, a);
            low[SLOT_OF(i, first)] = w.low;
            high[SLOT_OF(i, first)] = w.high;
            part_w[SLOT_OF(i, first)] = w.part;
        }
        const int past = min(a->c, ((int)block + 1) * a->block);
        for (int c = (int)block * a->block; c < past; c++) {
            const long y_row = (((long)c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
            FN(columns)(x + n * a->x_n + c * a->in[0] * plane, from, part, low, high, part_w, first,
                        y + n * a->y_n + y_row, a->out[2]);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct resize_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
