/* linear_fixed.cl: rows of x times rows of w as dot products, with weights of 24 bits, for CPU devices: a few rows of x
 * are bound by reading w from memory, of which a quarter is saved.
 *
 *   y[b][m][n] = act( sum_k x[b][m][k] * w[n][k] + c[n] + add[b][m][n] )  (gemm_operands.clh; alpha and beta are 1)
 *   w[n][k] = scale[n][k / CHUNK] * q[n][k]
 *
 * q is a float of 24 bits (linear_fixed.clh), of which each chunk of a row has a format of its own, whatever the others
 * are; `scale` is the power of two of the largest weight.
 *   pack   blocks of TO rows, `b_n` floats each: for every chunk a line with, of TO rows each, the scales and the e
 *          (integers), then for every QUAD of rows and every STEP elements of k three times STEP numbers of 32 bits:
 *          the upper 24 are the q of one row, the lowest 8 those of the fourth; zeros beyond k, any number beyond n.
 *          Group = block.
 *   main   a block, one stream from memory, times TB rows of x. Group = (block * batch items + batch item) * ceil(M/TB)
 *          + tile of rows: tiles of rows that share weights follow each other.
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
#define QUAD 4     /* of these side by side, of as many as registers have formats for */
#define CHUNK 512  /* elements of a row with one format */
#define STEP 16    /* elements that lie together */
#define LINE 16    /* floats of a cache line */
#define FLOATS 48  /* that QUAD rows of STEP elements take */
#define AHEAD 1024 /* floats between what is read and what is prefetched */
#include "matmul/linear_fixed.clh"

struct FN(format) FN(format_of)(SRC row, int there)
{
    int high, low;
    FN(range_of)(row, there, &high, &low);
    return FN(format_with)(high, FN(bits_for)(high, low));
}

/* V elements of QUAD rows, zeros past `there`, side by side in three numbers each. */
void FN(pack_part)(SRC const *rows, int i, int there, const struct FN(format) *f, global int *dst)
{
    const IV fourth = FN(encoded)(FN(elements)(rows[3], i, there), f + 3);
#pragma unroll
    for (int r = 0; r < 3; r++) {
        const IV q = FN(encoded)(FN(elements)(rows[r], i, there), f + r);
        STORE_PART(q << 8 | (fourth >> (16 - 8 * r) & 255), 0, dst + r * STEP);
    }
}

void FN(pack_body)(ulong group, SRC w, DST dst, const struct linear_pack_args *a)
{
    const int n = (int)group * TO;
    dst += (long)group * a->pitch;
    for (int first = 0; first < a->k; first += CHUNK) {
        const int there = min(CHUNK, a->k - first);
        SRC rows[TO];
        struct FN(format) f[TO];
        for (int o = 0; o < TO; o++) {
            rows[o] = w + (long)min(n + o, a->n - 1) * a->w_n + first;
            f[o] = FN(format_of)(rows[o], there);
            dst[o] = f[o].scale;
            ((global int *)dst)[TO + o] = f[o].bits;
        }
        dst += LINE;
        for (int o = 0; o < TO; o += QUAD)
            for (int i = 0; i < there; i += STEP, dst += FLOATS)
                for (int j = 0; j < STEP; j += V)
                    FN(pack_part)(rows + o, i + j, there, f + o, (global int *)dst + j);
    }
}

/* acc[o][t] += x[t] * what `bits_` hold for row o. */
#define PRODUCT(o, bits_)                                                                         \
    {                                                                                             \
        const FV weight = FN(decoded)(bits_, code + o);                                           \
        _Pragma("unroll") for (int t = 0; t < TB; t++) acc[o][t] = fma(weight, xv[t], acc[o][t]); \
    }
/* The products of STEP elements; X(t, i) is V elements of row t of x from the i-th on. */
#define PRODUCTS(X)                                                                                           \
    _Pragma("unroll") for (int i = 0; i < STEP; i += V)                                                       \
    {                                                                                                         \
        FV xv[TB];                                                                                            \
        _Pragma("unroll") for (int t = 0; t < TB; t++) xv[t] = X(t, i);                                       \
        const global int *from = (const global int *)w + i;                                                   \
        const IV q0 = LOAD_PART(0, from), q1 = LOAD_PART(0, from + STEP), q2 = LOAD_PART(0, from + 2 * STEP); \
        PRODUCT(0, q0)                                                                                        \
        PRODUCT(1, q1)                                                                                        \
        PRODUCT(2, q2)                                                                                        \
        PRODUCT(3, FN(fourth)(q0, q1, q2))                                                                    \
    }
#define FROM_MEMORY(t, i) LOADV(xr[t], k + (i))
#define FROM_TAIL(t, i) LOADV(tail[t], i)

/* total[QUAD][TB] += the products of the `count` elements of a chunk from k on, of as many rows as registers have
 * formats for. */
void FN(quad)(FV (*total)[TB], SRC *xr, SRC w, SRC scales, const global int *formats, int k, int count)
{
    FV acc[QUAD][TB];
    struct FN(code) code[QUAD];
#pragma unroll
    for (int o = 0; o < QUAD; o++) {
        code[o] = FN(code_of)(formats[o]);
#pragma unroll
        for (int t = 0; t < TB; t++)
            acc[o][t] = 0.0f;
    }
    for (const int past = k + count; k < past; k += STEP, w += FLOATS) {
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
    for (int o = 0; o < QUAD; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
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
    for (int k = 0; k < a->k; k += CHUNK) {
        const int count = min(CHUNK, a->k - k);
        SRC scales = w;
        w += LINE;
        for (int o = 0; o < TO; o += QUAD, w += (count + STEP - 1) / STEP * FLOATS)
            FN(quad)(total + o, xr, w, scales + o, (const global int *)scales + TO + o, k, count);
    }

    DST yt = y + FN(batch_offset)(b, a->y_b, a);
    SRC addt = add + FN(batch_offset)(b, a->add_b, a);
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
