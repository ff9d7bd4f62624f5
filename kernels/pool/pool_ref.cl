/* pool_ref.cl: max and average pooling over windows.
 *
 *   y[n][c][o] = max or mean over t of x[n][c][o * stride - pad + t * dil], taps outside left out
 *
 * The mean divides by the taps inside the input, or with include_pad by those inside the padded input. NaN
 * wins a max.
 * Layouts: N,C,(D,)(H,)W with batch strides. A row is one (n, c, d, h) of the output.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: AVG (0: max, 1: average), VECTOR (1: a work-item computes 16 columns at once, what a CPU likes;
 * needs RUNS; 0: one after the other), STRIDE_W (the width's stride when that is 1 or 2, else 0), WG,
 * LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) pool_ref_##x
#endif
#ifndef AVG
#define AVG 0
#endif
#ifndef VECTOR
#define VECTOR 0
#endif
#ifndef STRIDE_W
#define STRIDE_W 0
#endif

/* FV, IV: one column, or 16. */
#undef FV
#undef IV
#undef NUMBERS
#if VECTOR
#define FV float16
#define IV int16
#define NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#else
#define FV float
#define IV int
#define NUMBERS 0
#endif

/* Taps of a window that starts at `from` which lie in [low, high): the first one, and one past the last. */
int2 FN(taps)(int from, int dil, int ker, int low, int high)
{
    const int first = from >= low ? 0 : (low - from + dil - 1) / dil;
    const int past = high > from ? min(ker, (high - from + dil - 1) / dil) : 0;
    return (int2)(first, max(first, past));
}

/* Input columns at, at + stride, ... of the row that begins at element `row` of an item of `size`; what is
 * not `inside` may be anything. Vectors are read whole, beyond the row but never beyond the item. */
FV FN(columns)(SRC xn, long row, int at, IV inside, long size, int stride)
{
    const long i = row + at;
#if VECTOR
    if (STRIDE_W && i >= 0 && i + 16 * STRIDE_W <= size) {
        const float16 a = vload16(0, xn + i);
        if (STRIDE_W == 1)
            return a;
        const float16 b = vload16(0, xn + i + 16);
        return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, /* not .even: Oclgrind loses track */
                         b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
    }
    float v[16];
    int in[16];
    vstore16(inside, 0, in);
    for (int j = 0; j < 16; j++)
        v[j] = in[j] ? xn[i + j * stride] : 0.0f;
    return vload16(0, v);
#else
    return inside ? xn[i] : 0.0f;
#endif
}

/* Output columns from i on. d and h: depths and heights of the window's taps, as (first, past, step). */
FV FN(pool)(SRC xn, long channel, int3 d, int3 h, int i, const struct pool_args *a)
{
    const int stride = STRIDE_W ? STRIDE_W : a->stride[2], first = i * stride - a->pad[2], width = a->in[2];
    const long size = (long)a->c * a->in[0] * a->in[1] * width;
    FV acc = AVG ? 0.0f : -INFINITY;
    for (int z = d.x; z < d.y; z += d.z)
        for (int y = h.x; y < h.y; y += h.z) {
            const long row = channel + ((long)z * a->in[1] + y) * width;
            for (int w = 0; w < a->ker[2]; w++) {
                const int at = first + w * a->dil[2];
                const IV column = at + NUMBERS * stride, inside = (column >= 0) & (column < width);
                const FV v = FN(columns)(xn, row, at, inside, size, stride);
#if AVG
                acc += inside ? v : (FV)(0.0f);
#else
                acc = (inside & ((v > acc) | (v != v))) ? v : acc; /* NaN wins */
#endif
            }
        }
    return acc;
}

/* How many taps along the width count for output columns from i on. */
FV FN(width_count)(int i, const struct pool_args *a)
{
    const IV first = (i + NUMBERS) * a->stride[2] - a->pad[2];
    const int low = a->include_pad ? -a->pad[2] : 0, high = a->in[2] + (a->include_pad ? a->pad_end[2] : 0);
    FV count = 0.0f;
    for (int w = 0; w < a->ker[2]; w++) {
        const IV at = first + w * a->dil[2];
        count += ((at >= low) & (at < high)) ? (FV)(1.0f) : (FV)(0.0f);
    }
    return count;
}

/* The same along depth or height, for one output. */
int FN(count)(int from, int d, const struct pool_args *a)
{
    const int2 t = a->include_pad ? FN(taps)(from, a->dil[d], a->ker[d], -a->pad[d], a->in[d] + a->pad_end[d])
                                  : FN(taps)(from, a->dil[d], a->ker[d], 0, a->in[d]);
    return t.y - t.x;
}

void FN(body)(ulong group, SRC x, DST y, const struct pool_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest;
        const int d0 = (int)od * a->stride[0] - a->pad[0], h0 = (int)oh * a->stride[1] - a->pad[1];
        const int2 td = FN(taps)(d0, a->dil[0], a->ker[0], 0, a->in[0]);
        const int2 th = FN(taps)(h0, a->dil[1], a->ker[1], 0, a->in[1]);
        const int3 d = (int3)(d0 + td.x * a->dil[0], d0 + td.y * a->dil[0], a->dil[0]);
        const int3 h = (int3)(h0 + th.x * a->dil[1], h0 + th.y * a->dil[1], a->dil[1]);
        const float count = AVG ? (float)(FN(count)(d0, 0, a) * FN(count)(h0, 1, a)) : 1.0f;
        const long channel = c * a->in[0] * a->in[1] * a->in[2];
        SRC xn = x + n * a->x_n;
        DST yr = y + n * a->y_n + ((c * a->out[0] + od) * a->out[1] + oh) * a->out[2];
#if VECTOR
        const long past = min(first + ELEMS, (long)a->out[2]);
        for (long i = first; i < past; i += 16) {
            FV v = FN(pool)(xn, channel, d, h, (int)i, a);
            if (AVG)
                v /= count * FN(width_count)((int)i, a);
            if (i + 16 <= past) {
                vstore16(v, 0, yr + i);
            } else {
                float part[16];
                vstore16(v, 0, part);
                for (int j = 0; i + j < past; j++)
                    yr[i + j] = part[j];
            }
        }
#else
        FOR_COLUMNS(i, first, a->out[2])
        {
            const float v = FN(pool)(xn, channel, d, h, (int)i, a);
            yr[i] = AVG ? v / (count * FN(width_count)((int)i, a)) : v;
        }
#endif
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
