/* linear_fixed.cl: rows of x times rows of w as dot products, with weights as fixed-point numbers of 24 bits, for CPU devices: a few
 * rows of x are bound by reading w from memory, of which a quarter is saved.
 *
 *   y[b][m][n] = act( sum_k x[b][m][k] * w[n][k] + c[n] + add[b][m][n] )  (gemm_operands.clh; alpha and beta are 1)
 *   w[n][k] = scale[n][k / CHUNK] * q[n][k] / 2^22, |q| < 2^23, scale the largest power of two up to the chunk's largest |w|
 *
 * So a weight is off by 2^-23 of the largest of its chunk at most, and results by about as much as float32 sums are. An infinity in a chunk leaves
 * its infinities, and nothing else of it; a NaN makes the whole chunk NaN.
 *   pack   blocks of TO rows, `b_n` floats each: for every chunk a line with the TO scales, then for every STEP elements of k
 *          their q >> 8 (TO rows of STEP numbers of 16 bits) and the 8 bits below (TO rows of STEP bytes); zeros beyond k and n.
 *          Group = block.
 *   main   a block, one stream from memory, times TB rows of x. Group = (block * batch items + batch item) * ceil(M/TB) +
 *          tile of rows: tiles of rows that share weights follow each other.
 * Layouts: x dense along k (a_k = 1); w of pack has w_n elements between rows.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V 4, 8 or 16 elements at a time, TB (any), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#include "common/prefetch.clh"
#ifndef FN
#define FN(x) linear_fixed_##x
#endif
#include "matmul/gemm_operands.clh"
#include "common/vec_sum.clh"
#ifndef TB
#define TB 1
#endif
#define TO 8       /* rows of a block */
#define CHUNK 512  /* elements of a row with one scale */
#define STEP 16    /* elements whose parts lie side by side */
#define LINE 16    /* floats of a cache line */
#define FLOATS 96  /* that TO rows of STEP elements take */
#define AHEAD 1024 /* floats between what is read and what is prefetched */
#define LOWS (TO * STEP * 2) /* bytes before the low parts */
#define TO_INT VEC_CAT(convert_int, V)
#define TO_FLOAT VEC_CAT(convert_float, V)
#define TO_SHORT VEC_CAT(convert_short, V)
#define TO_UCHAR VEC_CAT(convert_uchar, V)
#define AS_INT VEC_CAT(as_int, V)
#define LOAD_PART VEC_CAT(vload, V)
#define STORE_PART VEC_CAT(vstore, V)

/* V elements of a row, zeros past the first `there`. */
FV FN(elements)(SRC row, int i, int there)
{
    if (i + V <= there)
        return LOADV(row, i);
    float e[V];
    for (int j = 0; j < V; j++)
        e[j] = i + j < there ? row[i + j] : 0.0f;
    return LOADV(e, 0);
}

/* The scale of so many elements: 2^(e - 1) where the largest is below 2^e; none of a finite size when they are not all finite. */
float FN(scale)(SRC row, int there)
{
    IV bits = 0; /* without the sign: an infinity's exceed those of all numbers, and a NaN's an infinity's */
    for (int i = 0; i < there; i += V)
        bits = max(bits, AS_INT(FN(elements)(row, i, there)) & 0x7fffffff);
    int each[V], most = 0;
    STORE_PART(bits, 0, each);
    for (int j = 0; j < V; j++)
        most = max(most, each[j]);
    if (most >= 0x7f800000)
        return most > 0x7f800000 ? NAN : INFINITY;
    return as_float(max(most >> 23, 24) << 23); /* so that its reciprocal times 2^22 is a float, too */
}

/* `count` elements of a row, zeros past `there`, as row o of the parts from `dst` on. */
void FN(pack_row)(SRC row, int there, int count, float scale, DST dst, int o)
{
    const bool finite = isfinite(scale);
    const float factor = finite ? 4194304.0f / scale : 0.0f;
    for (int i = 0; i < count; i += V) {
        const FV value = FN(elements)(row, i, there);
        const FV whole =
            finite ? rint(value * factor) : select((FV)0.0f, copysign((FV)4194304.0f, value), isinf(value));
        const IV q = TO_INT(fmin(whole, 8388607.0f)); /* all that 24 bits hold */
        global char *parts = (global char *)(dst + i / STEP * FLOATS);
        STORE_PART(TO_SHORT(q >> 8), 0, (global short *)parts + o * STEP + i % STEP);
        STORE_PART(TO_UCHAR(q & 255), 0, (global uchar *)parts + LOWS + o * STEP + i % STEP);
    }
}

void FN(pack_body)(ulong group, SRC w, DST dst, const struct linear_pack_args *a)
{
    dst += (long)group * a->pitch;
    for (int first = 0; first < a->k; first += CHUNK) {
        const int there = min(CHUNK, a->k - first), count = (there + STEP - 1) / STEP * STEP;
        for (int o = 0; o < LINE; o++) {
            const int n = (int)group * TO + o;
            const bool row = o < TO && n < a->n;
            SRC from = w + (long)(row ? n : 0) * a->w_n + first;
            const float scale = row ? FN(scale)(from, there) : 0.0f;
            dst[o] = scale;
            if (o < TO)
                FN(pack_row)(from, row ? there : 0, count, row ? scale : 1.0f, dst + LINE, o);
        }
        dst += LINE + count / STEP * FLOATS;
    }
}

/* acc[TO][TB] += x[TB] * q[TO] of STEP elements; X(t, i) is V elements of row t of x from the i-th on. */
#define PRODUCTS(X)                                                                                      \
    _Pragma("unroll") for (int i = 0; i < STEP; i += V)                                                  \
    {                                                                                                    \
        FV xv[TB];                                                                                       \
        _Pragma("unroll") for (int t = 0; t < TB; t++) xv[t] = X(t, i) * 0x1p-22f;                       \
        _Pragma("unroll") for (int o = 0; o < TO; o++)                                                   \
        {                                                                                                \
            const FV q = TO_FLOAT((TO_INT(LOAD_PART(0, high + o * STEP + i)) << 8) |                     \
                                  TO_INT(LOAD_PART(0, low + o * STEP + i)));                             \
            _Pragma("unroll") for (int t = 0; t < TB; t++) acc[o][t] = fma(q, xv[t], acc[o][t]);         \
        }                                                                                                \
    }
#define FROM_MEMORY(t, i) LOADV(xr[t], k + (i))
#define FROM_TAIL(t, i) LOADV(tail[t], i)

/* total[TO][TB] += the products of the `count` elements of a chunk from k on. */
void FN(chunk)(FV (*total)[TB], SRC *xr, SRC w, int k, int count)
{
    FV acc[TO][TB];
    SRC scales = w;
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
            acc[o][t] = 0.0f;
    w += LINE;
    for (const int past = k + count; k < past; k += STEP, w += FLOATS) {
        const global short *high = (const global short *)w;
        const global uchar *low = (const global uchar *)w + LOWS;
#pragma unroll
        for (int i = 0; i < FLOATS; i += LINE)
            PREFETCH_NEAREST(w + AHEAD + i);
        if (k + STEP <= past) {
            PRODUCTS(FROM_MEMORY)
        } else {
            float tail[TB][STEP];
            for (int t = 0; t < TB; t++)
                for (int i = 0; i < STEP; i++)
                    tail[t][i] = k + i < past ? xr[t][k + i] : 0.0f;
            PRODUCTS(FROM_TAIL)
        }
    }
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
            if (isinf(scales[o])) /* lanes without an infinity must not become 0 * infinity */
                total[o][t] += FN(sum)(acc[o][t]) * scales[o];
            else
                total[o][t] = fma(acc[o][t], (FV)scales[o], total[o][t]);
}

void FN(body)(ulong group, SRC x, SRC w, SRC mc, SRC add, DST y, const struct gemm_args *a)
{
    const int down = (a->m + TB - 1) / TB;
    long items = 1;
    for (int d = 0; d < 6; d++)
        items *= a->batch[d];
    const int m0 = (int)(group % down) * TB;
    const long b = (long)(group / down % items), block = (long)(group / down / items);
    const int n0 = (int)block * TO;
    SRC xt = x + FN(batch_offset)(b, a->a_b, a);
    SRC xr[TB];
#pragma unroll
    for (int t = 0; t < TB; t++)
        xr[t] = xt + min(m0 + t, a->m - 1) * a->a_m;
    FV total[TO][TB];
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
            total[o][t] = 0.0f;
    w += block * a->b_n;
    for (int k = 0; k < a->k; k += CHUNK, w += LINE + CHUNK / STEP * FLOATS)
        FN(chunk)(total, xr, w, k, min(CHUNK, a->k - k));

    DST yt = y + FN(result_offset)(b, a->y_n, a);
    SRC addt = add + FN(result_offset)(b, a->add_n, a);
    for (int o = 0; o < TO && n0 + o < a->n; o++)
        for (int t = 0; t < TB && m0 + t < a->m; t++)
            yt[(m0 + t) * a->y_m + n0 + o] = GEMM_RESULT(FN(sum)(total[o][t]), mc, addt, m0 + t, n0 + o, a);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct linear_pack_args a)
{
    FN(pack_body)(GROUP, w + w_off, dst + dst_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct gemm_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, mc + c_off, add + add_off, y + y_off, &a);
}
