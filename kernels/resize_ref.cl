/* resize_ref.cl: resampling of 1 to 3 spatial dimensions, nearest or (multi)linear.
 *
 * Output index i of a dimension reads at (i * mul + add) / div, exact in integers: the host has put the coordinate rule
 * and the rounding of `nearest` into the three numbers. Linear clamps the coordinate to the input, and takes
 * x[low] * (1 - part) + x[low + 1] * part in each dimension.
 * Layouts: N,C,(D,)(H,)W with batch strides; a row is one (n, c, d, h) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: LINEAR (0: nearest, 1: linear), DIMS (spatial dimensions, 1 to 3; default 3), WG, LANES, ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "clcnn.clh"
#include "args.h"
#include "rows.clh"
#include "strided.clh"
#ifndef FN
#define FN(x) resize_ref_##x
#endif
#ifndef LINEAR
#define LINEAR 0
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
    const long at = i * a->mul[d] + a->add[d], last = a->in[d] - 1;
    const long inside = at < 0 ? 0 : at;
    const long low = min(inside / a->div[d], last);
    struct FN(tap) t;
    t.low = (int)low;
#if LINEAR
    t.high = (int)min(low + 1, last);
    t.part = low == last ? 0.0f : (float)(inside - low * a->div[d]) / (float)a->div[d];
#else
    t.high = t.low;
    t.part = 0.0f;
#endif
    return t;
}

float FN(along_w)(SRC row, struct FN(tap) t)
{
    return LINEAR ? row[t.low] * (1.0f - t.part) + row[t.high] * t.part : row[t.low];
}

float FN(along_h)(SRC plane, int width, struct FN(tap) h, struct FN(tap) w)
{
    const float low = FN(along_w)(plane + (long)h.low * width, w);
    return LINEAR * DIMS > 1 ? low * (1.0f - h.part) + FN(along_w)(plane + (long)h.high * width, w) * h.part : low;
}

void FN(body)(ulong group, SRC x, DST y, const struct resize_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest, plane = (long)a->in[1] * a->in[2];
        const struct FN(tap) d = FN(tap_of)(od, 0, a), h = FN(tap_of)(oh, 1, a);
        SRC xc = x + n * a->x_n + c * a->in[0] * plane;
        DST yr = y + n * a->y_n + ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
        FOR_COLUMNS(i, first, a->out[2]) {
            const struct FN(tap) w = FN(tap_of)(i, 2, a);
            float v = FN(along_h)(xc + d.low * plane, a->in[2], h, w);
            if (LINEAR * DIMS > 2)
                v = v * (1.0f - d.part) + FN(along_h)(xc + d.high * plane, a->in[2], h, w) * d.part;
            yr[i] = v;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct resize_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
