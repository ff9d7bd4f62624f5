/* softmax_vector.cl: softmax and log_softmax along one dimension in vectors, for CPU devices; safe for large values.
 *
 *   m = max_l x[l], s = sum_l exp(x[l] - m);  y[l] = exp(x[l] - m) / s  or  y[l] = x[l] - m - log(s)
 *
 * rows:     the dimension is contiguous; a work-item takes `run` rows, up to V at a time of those shorter than V
 * columns:  it is not; a work-item takes a tile of TILE vectors of the elements beside each other
 * Exponentials are kept in y until their sum is known.
 * Layouts: x and y are (n, m, l, i) with batch strides; struct softmax_args. Where inner > 1 it is at least V.
 * Index map: rows: group = run; columns: group = row * pieces + tile.
 * Work-group: WG = 1. Local memory: none.
 * Defines: LOG (0: softmax, 1: log_softmax); V, 16 or 8; TILE 1, 2 or 4 (default). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) softmax_vector_##x
#endif
#ifndef LOG
#define LOG 0
#endif
#include "norm_reduce/row_vectors.clh"
#undef BLOCK
#undef NOTHING
#ifndef TILE
#define TILE 4
#endif
#define BLOCK 64 /* vectors added up before their sum is added to the sum of all */
#define NOTHING ((FV)0.0f)

/* exp(t) for t <= 0, within a unit in the last place, and 0 where it would be below the normal numbers: products with
 * such ones, of attention that a mask keeps out, take a hundred times as long on CPUs. NaN stays. 2^n times a
 * polynomial of what is left; n comes out of the low bits of a sum with 1.5 * 2^23. Functions of the library are
 * computed one by one on some devices. */
FV FN(softmax_exp)(FV t)
{
    const FV shifted = fma(t, (FV)1.44269504f, (FV)12582912.0f), n = shifted - 12582912.0f;
    const FV r = fma(n, (FV)2.12194440e-4f, fma(n, (FV)-0.693359375f, t));
    FV p = fma(r, (FV)1.9875691500e-4f, (FV)1.3981999507e-3f);
    p = fma(p, r, (FV)8.3334519073e-3f);
    p = fma(p, r, (FV)4.1665795894e-2f);
    p = fma(p, r, (FV)1.6666665459e-1f);
    p = fma(p, r, (FV)5.0000001201e-1f);
    p = fma(p * r, r, r) + 1.0f;
    const FV power = VEC_CAT(as_float, V)((VEC_CAT(as_int, V)(shifted) - (0x4b400000 - 127)) << 23);
    return t < (FV)-87.3365f ? NOTHING : p * power;
}

/* What an exponential is of all of them: 0 below the normal numbers, too. */
FV FN(share)(FV e, FV sum)
{
    const FV y = e / sum;
    return y < (FV)1.17549435e-38f ? NOTHING : y;
}

/* log(s) for s >= 1 (NaN stays): that of what is left of a power of two, between 0.7 and 1.4. */
FV FN(softmax_log)(FV s)
{
    const IV bits = VEC_CAT(as_int, V)(s), e = (bits - 0x3f3504f3) >> 23;
    const FV n = VEC_CAT(convert_float, V)(e), x = VEC_CAT(as_float, V)(bits - (e << 23)) - 1.0f, z = x * x;
    FV p = fma(x, (FV)7.0376836292e-2f, (FV)-1.1514610310e-1f);
    p = fma(p, x, (FV)1.1676998740e-1f);
    p = fma(p, x, (FV)-1.2420140846e-1f);
    p = fma(p, x, (FV)1.4249322787e-1f);
    p = fma(p, x, (FV)-1.6668057665e-1f);
    p = fma(p, x, (FV)2.0000714765e-1f);
    p = fma(p, x, (FV)-2.4999993993e-1f);
    p = fma(p, x, (FV)3.3333331174e-1f);
    const FV y = fma(n, (FV)-2.12194440e-4f, p * z * x) - 0.5f * z;
    return s == s ? fma(n, (FV)0.693359375f, x + y) : s;
}

/* Largest element, of those that are numbers. */
float FN(top)(SRC x, long n)
{
    FV a = (FV)(-INFINITY), b = a;
    long i = 0;
    for (; i + 2 * V <= n; i += 2 * V) {
        const FV u = LOADV(x, i), v = LOADV(x, i + V);
        a = u > a ? u : a;
        b = v > b ? v : b;
    }
    for (; i + V <= n; i += V) {
        const FV u = LOADV(x, i);
        a = u > a ? u : a;
    }
    if (n % V) {
        const FV u = FN(load_last)(x, n, -INFINITY);
        b = u > b ? u : b;
    }
    return FN(fold_max)(a > b ? a : b);
}

/* Sum of the exponentials, which softmax keeps in y. */
float FN(exponentials)(SRC x, DST y, long n, float top)
{
    const long whole = FLOOR_V(n);
    FV all = NOTHING;
    for (long block = 0; block < whole; block += BLOCK * V) {
        FV part = NOTHING;
        for (long i = block; i < min(whole, block + BLOCK * V); i += V) {
            const FV e = FN(softmax_exp)(LOADV(x, i) - top);
            if (!LOG)
                STOREV(e, y, i);
            part += e;
        }
        all += part;
    }
    if (whole < n) {
        const FV e = FN(softmax_exp)(FN(load_last)(x, n, -INFINITY) - top);
        if (!LOG)
            FN(store_last)(e, y, n);
        all += select(NOTHING, e, FN(mine)(n));
    }
    return FN(fold)(all);
}

/* Rows of n elements, fewer than a vector has: up to V at a time, each in a lane; `apart` in x and y. */
void FN(short_rows)(SRC x, DST y, long x_apart, long y_apart, int rows, int n)
{
    float kept[V * V];
    for (int j = 0; j < n; j++)
        for (int r = 0; r < V; r++)
            kept[j * V + r] = r < rows ? x[r * x_apart + j] : 0.0f;
    FV top = (FV)(-INFINITY), sum = NOTHING;
    for (int j = 0; j < n; j++) {
        const FV v = LOADV(kept, j * V);
        top = v > top ? v : top;
    }
    for (int j = 0; j < n; j++) {
        const FV v = LOADV(kept, j * V) - top, e = FN(softmax_exp)(v);
        KEEPV(LOG ? v : e, kept, j * V);
        sum += e;
    }
    if (LOG)
        sum = FN(softmax_log)(sum);
    for (int j = 0; j < n; j++) {
        const FV v = LOADV(kept, j * V);
        KEEPV(LOG ? v - sum : FN(share)(v, sum), kept, j * V);
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < n; j++)
            y[r * y_apart + j] = kept[j * V + r];
}

void FN(row)(SRC x, DST y, long n)
{
    const float top = FN(top)(x, n), sum = FN(exponentials)(x, y, n, top);
    if (LOG) {
        float logarithm[V];
        KEEPV(FN(softmax_log)((FV)sum), logarithm, 0);
        for (long i = 0; i + V <= n; i += V)
            STOREV(LOADV(x, i) - top - logarithm[0], y, i);
        if (n % V)
            FN(store_last)(FN(load_last)(x, n, 0.0f) - top - logarithm[0], y, n);
    } else {
        const FV last = FN(load_last)(y, n, 0.0f); /* before some of it is divided */
        for (long i = 0; i + V <= n; i += V)
            STOREV(FN(share)(LOADV(y, i), (FV)sum), y, i);
        if (n % V)
            FN(store_last)(FN(share)(last, (FV)sum), y, n);
    }
}

void FN(rows_body)(ulong group, SRC x, DST y, const struct softmax_args *a)
{
    const struct softmax_args args = *a; /* a copy: stores of y cannot change it */
    const long end = min((long)args.rows, ((long)group + 1) * args.run);
    for (long row = (long)group * args.run, taken; row < end; row += taken) {
        const long n = row / args.middle, m = row - n * args.middle;
        SRC from = x + n * args.x_n + m * args.middle_step;
        DST to = y + n * args.y_n + m * args.middle_step;
        const bool items = args.middle == 1; /* neighbours are rows of other items */
        taken = args.length < V ? min(items ? end - row : min(end - row, (long)args.middle - m), (long)V) : 1;
        if (args.length < V)
            FN(short_rows)(from, to, items ? args.x_n : args.middle_step, items ? args.y_n : args.middle_step,
                           (int)taken, (int)args.length);
        else
            FN(row)(from, to, args.length);
    }
}

/* `count` vectors of columns, the first one `first`; the last one of the row ends where the row ends. So it may repeat
 * elements of the one before, whose exponentials y must not have lost: vectors go through each step together. */
void FN(tile)(SRC x, DST y, long first, int count, const struct softmax_args *a)
{
    FV top[TILE], sum[TILE];
    long column[TILE];
    for (int t = 0; t < TILE; t++) {
        column[t] = min((first + min(t, count - 1)) * V, (long)a->inner - V);
        top[t] = (FV)(-INFINITY);
        sum[t] = NOTHING;
    }
    for (long l = 0; l < a->length; l++)
#pragma unroll
        for (int t = 0; t < TILE; t++) {
            const FV v = LOADV(x, l * a->x_step + column[t]);
            top[t] = v > top[t] ? v : top[t];
        }
    for (long block = 0; block < a->length; block += BLOCK) {
        FV part[TILE];
        for (int t = 0; t < TILE; t++)
            part[t] = NOTHING;
        for (long l = block; l < min((long)a->length, block + BLOCK); l++)
#pragma unroll
            for (int t = 0; t < TILE; t++) {
                const FV e = FN(softmax_exp)(LOADV(x, l * a->x_step + column[t]) - top[t]);
                if (!LOG && t < count)
                    STOREV(e, y, l * a->y_step + column[t]);
                part[t] += e;
            }
        for (int t = 0; t < TILE; t++)
            sum[t] += part[t];
    }
    for (int t = 0; LOG && t < TILE; t++)
        sum[t] = FN(softmax_log)(sum[t]);
    for (long l = 0; l < a->length; l++) {
        FV v[TILE];
#pragma unroll
        for (int t = 0; t < TILE; t++)
            v[t] = LOG ? LOADV(x, l * a->x_step + column[t]) - top[t] - sum[t]
                       : FN(share)(LOADV(y, l * a->y_step + column[t]), sum[t]);
#pragma unroll
        for (int t = 0; t < TILE; t++)
            if (t < count)
                STOREV(v[t], y, l * a->y_step + column[t]);
    }
}

void FN(columns_body)(ulong group, SRC x, DST y, const struct softmax_args *a)
{
    const struct softmax_args args = *a;
    const long row = (long)group / args.pieces, tile = (long)group % args.pieces;
    const long n = row / args.middle, m = row - n * args.middle;
    const long vectors = (args.inner + V - 1) / V;
    const long first = vectors * tile / args.pieces, past = vectors * (tile + 1) / args.pieces;
    FN(tile)(x + n * args.x_n + m * args.middle_step, y + n * args.y_n + m * args.middle_step, first,
             (int)(past - first), &args);
}

KERNEL FN(rows)(SRC x, ulong x_off, DST y, ulong y_off, const struct softmax_args a)
{
    FN(rows_body)(GROUP, x + x_off, y + y_off, &a);
}

KERNEL FN(columns)(SRC x, ulong x_off, DST y, ulong y_off, const struct softmax_args a)
{
    FN(columns_body)(GROUP, x + x_off, y + y_off, &a);
}
