/* cell_tiled.cl: a step of a recurrent layer, as cell_ref.cl has it, by tiles in local memory.
 *
 * A work-item has one unit with all its gates, and TB rows; the next parts of both operands wait in registers while
 * those before are multiplied, and what the gates need is asked for before the first product.
 * Layouts: rows of x[n][GATES * size], h, c, y and d lie batch strides apart, those of w[GATES * size][size] w_n.
 * Index map: group = tile of ROWS rows * ceil(size / UNITS) + tile of UNITS units.
 * Work-group: WG, a multiple of 16. Local memory: DEPTH columns of both tiles.
 * Defines: WG, GATES 3 or 4, TB 1, 2 or 4. */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/activation.clh"
#ifndef FN
#define FN(x) cell_tiled_##x
#endif
#ifndef GATES
#define GATES 4
#endif
#ifndef TB
#define TB 4
#endif
#define UNITS 16
#define DOWN (WG / UNITS) /* from a row of a work-item to its next one */
#define ROWS (DOWN * TB)
#define DEPTH 32
#define SIDE_W (GATES * UNITS)
#define EACH_W (SIDE_W * DEPTH / WG)
#define EACH_H ((ROWS * DEPTH + WG - 1) / WG)
#define APART_W (SIDE_W + 1) /* floats from one column of the weights to the next */
#define APART_H (DEPTH + 1)  /* from one row of h to the next */

/* Columns k.. of the tiles that begin at w and h; zeros past their ends. Neighbours read along a row. */
void FN(fetch)(float wv[EACH_W], float hv[EACH_H], SRC w, SRC h, int k, int units, int rows, const struct cell_args *a)
{
    const int column = LANE % DEPTH, first = LANE / DEPTH;
    const bool present = k + column < a->size;
#pragma unroll
    for (int i = 0; i < EACH_W; i++) {
        const int of = first + i * (WG / DEPTH), gate = of / UNITS, u = of % UNITS;
        wv[i] = present && u < units ? w[(long)(gate * a->size + u) * a->w_n + k + column] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < EACH_H; i++) {
        const int row = first + i * (WG / DEPTH);
        hv[i] = present && row < rows ? h[row * a->h_n + k + column] : 0.0f;
    }
}

void FN(keep)(local float *ws, local float *hs, const float wv[EACH_W], const float hv[EACH_H])
{
    const int column = LANE % DEPTH, first = LANE / DEPTH;
#pragma unroll
    for (int i = 0; i < EACH_W; i++)
        ws[column * APART_W + first + i * (WG / DEPTH)] = wv[i];
#pragma unroll
    for (int i = 0; i < EACH_H; i++)
        if (first + i * (WG / DEPTH) < ROWS)
            hs[(first + i * (WG / DEPTH)) * APART_H + column] = hv[i];
}

/* ws, hs: at this work-item's unit and first row. */
void FN(multiply)(float sum[TB][GATES], const local float *ws, const local float *hs)
{
#pragma unroll 8
    for (int k = 0; k < DEPTH; k++) {
        float wk[GATES];
#pragma unroll
        for (int g = 0; g < GATES; g++)
            wk[g] = ws[k * APART_W + g * UNITS];
#pragma unroll
        for (int t = 0; t < TB; t++)
#pragma unroll
            for (int g = 0; g < GATES; g++)
                sum[t][g] = fma(hs[t * DOWN * APART_H + k], wk[g], sum[t][g]);
    }
}

#include "matmul/gates.clh"

void FN(body)(ulong group, SRC x, SRC h, SRC c, SRC w, SRC b, DST y, DST d, const struct cell_args *a,
              local float4 *scratch)
{
    const int size = a->size, across = (size + UNITS - 1) / UNITS;
    const int u0 = (int)(group % across) * UNITS, m0 = (int)(group / across) * ROWS;
    const int u = LANE % UNITS, row = LANE / UNITS, unit = min(u0 + u, size - 1);
    local float *ws = (local float *)scratch, *hs = ws + DEPTH * APART_W;
    float wv[EACH_W], hv[EACH_H], sum[TB][GATES], given[TB][GATES], bias[GATES], before[TB];
    w += u0 * a->w_n;
    FN(fetch)(wv, hv, w, h + m0 * a->h_n, 0, size - u0, a->n - m0, a);
#pragma unroll
    for (int g = 0; g < GATES; g++)
        bias[g] = GATES == 3 ? b[g * size + unit] : 0.0f;
#pragma unroll
    for (int t = 0; t < TB; t++) {
        const long m = min(m0 + row + t * DOWN, a->n - 1);
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            sum[t][g] = 0.0f;
            given[t][g] = x[m * a->x_n + g * size + unit];
        }
        before[t] = GATES == 4 ? c[m * a->c_n + unit] : h[m * a->h_n + unit];
    }
    for (int k = 0; k < size; k += DEPTH) {
        barrier(CLK_LOCAL_MEM_FENCE);
        FN(keep)(ws, hs, wv, hv);
        barrier(CLK_LOCAL_MEM_FENCE);
        FN(fetch)(wv, hv, w, h + m0 * a->h_n, k + DEPTH, size - u0, a->n - m0, a);
        FN(multiply)(sum, ws + u, hs + row * APART_H);
    }
#pragma unroll
    for (int t = 0; t < TB; t++) {
        const long m = m0 + row + t * DOWN;
        const float result = FN(next)(sum[t], given[t], bias, &before[t]);
        if (m < a->n && u0 + u < size) {
#if GATES == 4
            d[m * a->d_n + unit] = before[t];
#endif
            y[m * a->y_n + unit] = result;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC h, ulong h_off, SRC c, ulong c_off, SRC w, ulong w_off, SRC b, ulong b_off,
                DST y, ulong y_off, DST d, ulong d_off, const struct cell_args a)
{
    local float4 scratch[(DEPTH * APART_W + ROWS * APART_H + 3) / 4];
    FN(body)(GROUP, x + x_off, h + h_off, c + c_off, w + w_off, b + b_off, y + y_off, d + d_off, &a, scratch);
}
