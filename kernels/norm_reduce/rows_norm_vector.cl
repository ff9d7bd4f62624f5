/* rows_norm_vector.cl: instance, group, layer, RMS and L2 norm in vectors of row-major elements, for CPU devices.
 *
 * rows:     a row's elements are neighbours; a work-item takes `run` rows, each from memory once where it fits a cache
 * sums:     long rows in parts, first: the sums of one part of a row, to sums[row][part][2]
 * apply:    then: the results of one part, from all parts' sums in their order
 * columns:  elements lie x_step apart, and neighbours are in other rows; a work-item takes a tile of TILE vectors of
 *           them
 * KIND says what a norm is (norm_vectors.clh); y = act(norm).
 * Layouts: struct norm_vector_args. Where inner > 1 it is at least V.
 * Index map: rows: group = run; sums, apply: group = row * parts + part; columns: group = row * tiles + tile.
 * Work-group: WG = 1. Local memory: none.
 * Defines: KIND (0, 1, 2; default 0); EPI_ACT act_*; V, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) rows_norm_vector_##x
#endif
#include "common/activation_vec.clh"
#include "norm_reduce/norm_vectors.clh"
#include "norm_reduce/row_vectors.clh"
#undef TILE
#undef STAGE
#define TILE 4
#define STAGE 32768 /* floats of a tile that are kept where no two lie a multiple of a large power of two apart */
#define NOTHING ((FV)0.0f)

/* A number near the mean of n elements: that of vectors spread evenly over them. */
float FN(pivot)(SRC x, long n)
{
    if (KIND != 0)
        return 0.0f;
    if (n < V)
        return x[0];
    const long vectors = n / V, step = (vectors + NORM_PIVOTS - 1) / NORM_PIVOTS * V;
    FV a = NOTHING, b = NOTHING;
    int count = 0;
    long i = 0;
    for (; i + step + V <= n; i += 2 * step, count += 2) {
        a += LOADV(x, i);
        b += LOADV(x, i + step);
    }
    if (i + V <= n) {
        a += LOADV(x, i);
        count++;
    }
    return FN(fold)(a + b) / (float)(count * V);
}

/* Sums of x - pivot and of its square over n elements. */
float2 FN(sums_of)(SRC x, long n, float pivot)
{
    const long whole = FLOOR_V(n);
    FV all = NOTHING, squares = NOTHING;
    for (long block = 0; block < whole; block += NORM_BLOCK * 4) {
        const long end = min(whole, block + NORM_BLOCK * 4);
        FV s0 = NOTHING, s1 = NOTHING, q0 = NOTHING, q1 = NOTHING, q2 = NOTHING, q3 = NOTHING;
        long i = block;
        for (; i + 4 * V <= end; i += 4 * V) {
            const FV a = LOADV(x, i) - pivot, b = LOADV(x, i + V) - pivot;
            const FV c = LOADV(x, i + 2 * V) - pivot, d = LOADV(x, i + 3 * V) - pivot;
            s0 += a + b;
            s1 += c + d;
            q0 = fma(a, a, q0);
            q1 = fma(b, b, q1);
            q2 = fma(c, c, q2);
            q3 = fma(d, d, q3);
        }
        for (; i < end; i += V) {
            const FV a = LOADV(x, i) - pivot;
            s0 += a;
            q0 = fma(a, a, q0);
        }
        all += s0 + s1;
        squares += (q0 + q1) + (q2 + q3);
    }
    if (whole < n) {
        const FV d = select(NOTHING, FN(load_last)(x, n, pivot) - pivot, FN(mine)(n));
        all += d;
        squares = fma(d, d, squares);
    }
    return (float2)(KIND == 0 ? FN(fold)(all) : 0.0f, FN(fold)(squares));
}

/* Writes (x - pivot) * scale + offset, with weight and bias of each element (weights is 0 and biases is 0 where there
 * are none). */
void FN(write_elements)(SRC x, SRC weight, SRC bias, DST y, long n, float pivot, float scale, float offset, int weights,
                        int biases, float p0, float p1)
{
    for (long i = 0; i + V <= n; i += V) {
        FV v = fma(LOADV(x, i) - pivot, (FV)scale, (FV)offset);
        if (weights)
            v *= LOADV(weight, i);
        if (biases)
            v += LOADV(bias, i);
        STOREV(VECTOR_ACT(EPI_ACT)(v, p0, p1), y, i);
    }
    if (n % V) {
        FV v = fma(FN(load_last)(x, n, 0.0f) - pivot, (FV)scale, (FV)offset);
        if (weights)
            v *= FN(load_last)(weight, n, 0.0f);
        if (biases)
            v += FN(load_last)(bias, n, 0.0f);
        FN(store_last)(VECTOR_ACT(EPI_ACT)(v, p0, p1), y, n);
    }
}

/* The results [first, past) of a row whose elements have a parameter each, or `plane` ones share one. */
void FN(write)(SRC x, SRC weight, SRC bias, DST y, long first, long past, float pivot, float scale, float shift,
               long channel, const struct norm_vector_args *a)
{
    const float offset = -shift * scale;
    if (a->plane == 0) {
        FN(write_elements)(x + first, weight + first, bias + first, y + first, past - first, pivot, scale, offset,
                           a->weight, a->bias, a->p0, a->p1);
    } else {
        for (long at = first; at < past;) {
            const long c = at / a->plane, end = min(past, (c + 1) * a->plane);
            const float w = a->weight ? weight[channel + c] : 1.0f, b = a->bias ? bias[channel + c] : 0.0f;
            FN(write_elements)(x + at, weight, bias, y + at, end - at, pivot, scale * w, fma(offset, w, b), 0, 0, a->p0,
                               a->p1);
            at = end;
        }
    }
}

/* Where the row lies in its operands: in x (.x), in y (.y), and its number in its item (.z). */
long4 FN(place)(long row, const struct norm_vector_args *a)
{
    const long n = row / a->middle, m = row - n * a->middle;
    return (long4)(n * a->x_n + m * a->middle_step, n * a->y_n + m * a->middle_step, m, n);
}

void FN(rows_body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct norm_vector_args *a)
{
    const struct norm_vector_args args = *a; /* a copy: stores of y cannot change it */
    const long end = min((long)args.rows, ((long)group + 1) * args.run);
    for (long row = (long)group * args.run; row < end; row++) {
        const long4 at = FN(place)(row, &args);
        SRC xr = x + at.x;
        const float pivot = FN(pivot)(xr, args.length);
        const float2 sums = FN(sums_of)(xr, args.length, pivot);
        const float n = (float)args.length;
        float shift = 0.0f;
        NORM_SCALE(float, sums.x, sums.y, n, args.eps, shift)
        FN(write)(xr, weight, bias, y + at.y, 0, args.length, pivot, scale, shift, at.z * args.channels, &args);
    }
}

/* First element of a part; of as many as there are, the one after the last. */
long FN(part)(long part, const struct norm_vector_args *a)
{
    return min((long)a->length, part * a->part_length);
}

void FN(sums_body)(ulong group, SRC x, DST sums, const struct norm_vector_args *a)
{
    const long row = (long)group / a->parts, part = (long)group % a->parts;
    SRC xr = x + FN(place)(row, a).x;
    const long first = FN(part)(part, a), past = FN(part)(part + 1, a);
    const float2 s = FN(sums_of)(xr + first, past - first, FN(pivot)(xr, a->length));
    sums[2 * group] = s.x;
    sums[2 * group + 1] = s.y;
}

void FN(apply_body)(ulong group, SRC x, SRC weight, SRC bias, SRC sums, DST y, const struct norm_vector_args *a)
{
    const struct norm_vector_args args = *a;
    const long row = (long)group / args.parts, part = (long)group % args.parts;
    const long4 at = FN(place)(row, &args);
    SRC xr = x + at.x;
    float sum = 0.0f, squares = 0.0f;
    for (long i = row * args.parts; i < (row + 1) * args.parts; i++) {
        sum += sums[2 * i];
        squares += sums[2 * i + 1];
    }
    const float n = (float)args.length;
    float shift = 0.0f;
    NORM_SCALE(float, sum, squares, n, args.eps, shift)
    FN(write)(xr, weight, bias, y + at.y, FN(part)(part, &args), FN(part)(part + 1, &args), FN(pivot)(xr, args.length),
              scale, shift, at.z * args.channels, &args);
}

/* `count` vectors of columns, the first one `first`; the last one of the row ends where the row ends. What lies a large
 * power of two apart would share few lines of a cache, and come from memory again: it is kept in a stage. */
void FN(tile)(SRC x, SRC weight, SRC bias, DST y, long first, int count, const struct norm_vector_args *a)
{
    FV pivot[TILE], sum[TILE], squares[TILE];
    long column[TILE];
    float stage[STAGE];
    const long length = a->length, step = (length + NORM_FEW - 1) / NORM_FEW;
    const float n = (float)length, few = (float)((length + step - 1) / step);
    for (int t = 0; t < TILE; t++) {
        column[t] = min((first + min(t, count - 1)) * V, (long)a->inner - V);
        pivot[t] = sum[t] = squares[t] = NOTHING;
    }
    for (long l = 0; KIND == 0 && l < length; l += step)
#pragma unroll
        for (int t = 0; t < TILE; t++)
            pivot[t] += LOADV(x, l * a->x_step + column[t]);
    for (int t = 0; t < TILE; t++)
        pivot[t] /= few;
    for (long block = 0; block < length; block += NORM_BLOCK / 16) {
        FV s[TILE], q[TILE];
        for (int t = 0; t < TILE; t++)
            s[t] = q[t] = NOTHING;
        for (long l = block; l < min(length, block + NORM_BLOCK / 16); l++)
#pragma unroll
            for (int t = 0; t < TILE; t++) {
                const FV d = LOADV(x, l * a->x_step + column[t]) - pivot[t];
                if (a->staged)
                    KEEPV(d, stage, (l * TILE + t) * V);
                s[t] += d;
                q[t] = fma(d, d, q[t]);
            }
        for (int t = 0; t < TILE; t++) {
            sum[t] += s[t];
            squares[t] += q[t];
        }
    }
    for (int t = 0; t < TILE; t++) {
        FV shift = NOTHING;
        NORM_SCALE(FV, sum[t], squares[t], n, a->eps, shift)
        squares[t] = scale;
        sum[t] = -shift * scale;
    }
    for (long l = 0; l < length; l++) {
        const float w = a->weight ? weight[l] : 1.0f, b = a->bias ? bias[l] : 0.0f;
#pragma unroll
        for (int t = 0; t < TILE; t++)
            if (t < count) {
                const FV d =
                    a->staged ? LOADV(stage, (l * TILE + t) * V) : LOADV(x, l * a->x_step + column[t]) - pivot[t];
                const FV v = fma(fma(d, squares[t], sum[t]), (FV)w, (FV)b);
                STOREV(VECTOR_ACT(EPI_ACT)(v, a->p0, a->p1), y, l * a->y_step + column[t]);
            }
    }
}

void FN(columns_body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct norm_vector_args *a)
{
    const struct norm_vector_args args = *a;
    const long tile = (long)group % args.parts;
    const long4 at = FN(place)((long)group / args.parts, &args);
    const long vectors = (args.inner + V - 1) / V;
    const long first = vectors * tile / args.parts, past = vectors * (tile + 1) / args.parts;
    FN(tile)(x + at.x, weight, bias, y + at.y, first, (int)(past - first), &args);
}

KERNEL FN(rows)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                const struct norm_vector_args a)
{
    FN(rows_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a);
}

KERNEL FN(sums)(SRC x, ulong x_off, DST sums, ulong sums_off, const struct norm_vector_args a)
{
    FN(sums_body)(GROUP, x + x_off, sums + sums_off, &a);
}

KERNEL FN(apply)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC sums, ulong sums_off,
                 DST y, ulong y_off, const struct norm_vector_args a)
{
    FN(apply_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, sums + sums_off, y + y_off, &a);
}

KERNEL FN(columns)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                   const struct norm_vector_args a)
{
    FN(columns_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a);
}
