/* linear_gemv.cl: rows of x times rows of w as dot products; the weights are streamed once per TB rows of x.
 *
 *   y[b][m][n] = act( alpha * sum_k a[b][m][k] * w[n][k] + beta * c[n] + add[b][m][n] )  (gemm_operands.clh)
 *
 * LK neighbouring work-items share the sum over k of TO rows of w and TB rows of x; their partial sums meet
 * in local memory.
 * Layouts: a and w dense along k (a_k = b_k = 1); HALVES 1: w packed by linear_gemv_pack.cl.
 * Index map: group = (tile of WG/LK * TO outputs * batch items + batch item) * ceil(M/TB) + tile of rows:
 * tiles of rows that share weights follow each other.
 * Work-group: WG. Local memory: TO * TB * WG floats when LK > 1.
 * Defines: WG (a multiple of LK), LK a power of two (default WG), V 4, 8 or 16 elements at a time, TO, TB
 * (any), HALVES 0 (default) or 1, AHEAD elements of w between what is read and what is prefetched, 0: nothing is,
 * EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#include "common/prefetch.clh"
#ifndef FN
#define FN(x) linear_gemv_##x
#endif
#include "matmul/gemm_operands.clh"
#include "common/vec_sum.clh"
#ifndef LK
#define LK WG
#endif
#ifndef TO
#define TO 4
#endif
#ifndef TB
#define TB 4
#endif
#ifndef HALVES
#define HALVES 0
#endif
#undef WROW
#undef LOADW
#undef WAT
#if HALVES
#define WROW const global half *
#define WAT(p, i) vload_half(i, p)
#define LOADW(p, i, wide) VEC_CAT(vloada_half, V)(0, (p) + (i))
#else
#define WROW SRC
#define WAT(p, i) (p)[i]
#if LK == 1
#define LOADW(p, i, wide) LOADV(p, i)
#else /* neighbours read neighbouring vectors; drivers take a vector that may lie anywhere apart */
#define LOADW(p, i, wide) ((wide) ? *(const global float4 *)((p) + (i)) : LOADV(p, i))
#endif
#endif
#if LK > 1 && V != 4
#error "V must be 4 when work-items share a sum"
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#define SCRATCH (LK == 1 ? 1 : TO * TB * WG / 4)

/* acc += the first `whole` products of the rows, of which this work-item has those from V * lane on; `wide`: rows of w
 * lie on boundaries of vectors. */
__attribute__((always_inline)) void FN(accumulate)(FV acc[TO][TB], SRC xr[TB], WROW wr[TO], int lane, int whole,
                                                   bool wide)
{
#if LK > 1
#pragma unroll 2
#endif
    for (int k = lane * V; k < whole; k += LK * V) {
        FV xv[TB];
#pragma unroll
        for (int t = 0; t < TB; t++)
            xv[t] = LOADV(xr[t], k);
#pragma unroll
        for (int o = 0; o < TO; o++) {
            const FV wv = LOADW(wr[o], k, wide);
#if AHEAD
            PREFETCH((SRC)(wr[o] + k + AHEAD));
#endif
#pragma unroll
            for (int t = 0; t < TB; t++)
                acc[o][t] = fma(wv, xv[t], acc[o][t]);
        }
    }
}

void FN(body)(ulong group, SRC ma, SRC w, SRC mc, SRC add, DST y, const struct gemm_args *a, local float4 *scratch)
{
    const int down = (a->m + TB - 1) / TB;
    long items = 1;
    for (int d = 0; d < 6; d++)
        items *= a->batch[d];
    const int m0 = (int)(group % down) * TB;
    const long b = (long)(group / down % items);
    const int n0 = (int)(group / down / items) * (WG / LK * TO) + LANE / LK * TO;
    const int lane = LANE % LK;
    SRC at = ma + FN(batch_offset)(b, a->a_b, a);
    SRC xr[TB];
    WROW wr[TO]; /* rows beyond the last repeat it, and are not stored */
#pragma unroll
    for (int t = 0; t < TB; t++)
        xr[t] = at + min(m0 + t, a->m - 1) * a->a_m;
#pragma unroll
    for (int o = 0; o < TO; o++)
        wr[o] = (WROW)w + min(n0 + o, a->n - 1) * a->b_n;

    FV acc[TO][TB];
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
            acc[o][t] = 0.0f;
    const int whole = a->k / (LK * V) * (LK * V);
    if (LK > 1 && (ulong)w % 16 == 0 && a->b_n % 4 == 0)
        FN(accumulate)(acc, xr, wr, lane, whole, true);
    else
        FN(accumulate)(acc, xr, wr, lane, whole, false);
    float sum[TO][TB];
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++) {
            sum[o][t] = FN(sum)(acc[o][t]);
            for (int k = whole + lane; k < a->k; k += LK)
                sum[o][t] = fma(WAT(wr[o], k), xr[t][k], sum[o][t]);
        }

#if LK > 1
    local float *part = (local float *)scratch;
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
            part[(o * TB + t) * WG + LANE] = sum[o][t];
    for (int reach = LK / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < reach)
            for (int i = 0; i < TO * TB; i++)
                part[i * WG + LANE] += part[i * WG + LANE + reach];
    }
#pragma unroll
    for (int o = 0; o < TO; o++)
#pragma unroll
        for (int t = 0; t < TB; t++)
            sum[o][t] = part[(o * TB + t) * WG + LANE]; /* lane 0 of LK holds its own */
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

    DST yt = y + FN(batch_offset)(b, a->y_b, a);
    SRC addt = add + FN(batch_offset)(b, a->add_b, a);
    if (lane == 0)
#pragma unroll
        for (int o = 0; o < TO; o++)
#pragma unroll
            for (int t = 0; t < TB; t++)
                if (n0 + o < a->n && m0 + t < a->m)
                    yt[(m0 + t) * a->y_m + n0 + o] = GEMM_RESULT(a->alpha * sum[o][t], mc, addt, m0 + t, n0 + o, a);
}

KERNEL FN(main)(SRC ma, ulong a_off, SRC w, ulong w_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct gemm_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, ma + a_off, w + w_off, mc + c_off, add + add_off, y + y_off, &a, scratch);
}
