/* depthwise_nhwc_rows.cl: depthwise 2-D convolution of maps with channels last, vectors of channels of TW columns in
 * registers, for CPU devices.
 *
 *   y[n][oh][ow][c] = act( sum_{r,s} x[n][oh*sh - ph + r*dh][ow*SW - pw + s*DW][c] * w[c][0][r][s] + bias[c] + add )
 *
 * All channels of TW columns come one after the other, as they lie in memory. A pixel is read once for all taps of a
 * row. What lies outside of the map is left out.
 * Layouts: x, y, add NHWC with batch strides; w packed by conv_pack.cl: [C/V][R][S][V].
 * Index map: group = n * parts + part; a work-item computes `rows` rows of the result.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V 16 or 8 (divides C), TW (any), KW the taps of a row, SW the stride and DW the dilation along a row;
 * EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/conv_cpu_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) depthwise_nhwc_rows_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#ifndef TW
#define TW 7
#endif
#ifndef KW
#define KW 3
#endif
#ifndef SW
#define SW 1
#endif
#ifndef DW
#define DW 1
#endif
#define SPAN ((TW - 1) * SW + (KW - 1) * DW + 1) /* columns under a tile */

/* acc += the products of a row of taps; pixels: column `col` of the map, a->c floats apart. */
__attribute__((always_inline)) void FN(row)(FV *acc, SRC pixels, SRC taps, int col, bool inside,
                                            const struct depthwise_args *a)
{
    FV tap[KW];
#pragma unroll
    for (int s = 0; s < KW; s++)
        tap[s] = LOADV(taps, s * V);
#pragma unroll
    for (int j = 0; j < SPAN; j++)
        if (inside || (uint)(col + j) < (uint)a->in[1]) {
            const FV v = LOADV(pixels, (long)j * a->c);
#pragma unroll
            for (int s = 0; s < KW; s++)
                if (j >= s * DW && (j - s * DW) % SW == 0 && (j - s * DW) / SW < TW)
                    acc[(j - s * DW) / SW] = fma(v, tap[s], acc[(j - s * DW) / SW]);
        }
}

/* The channels `k` on of TW columns, of which the first tap is at row `line` and column `col` of the map. */
__attribute__((always_inline)) void FN(tile)(FV *acc, SRC map, SRC w, int k, int line, int col, bool inside,
                                             const struct depthwise_args *a)
{
    SRC taps = w + (long)k * a->ker[0] * KW;
#pragma unroll
    for (int t = 0; t < TW; t++)
        acc[t] = 0.0f;
    for (int r = 0; r < a->ker[0]; r++, line += a->dil[0], taps += KW * V)
        if (line >= 0 && line < a->in[0])
            FN(row)(acc, map + ((long)line * a->in[1] + col) * a->c + k, taps, col, inside, a);
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct depthwise_args *a)
{
    const int parts = (a->out[0] + a->rows - 1) / a->rows, first = (int)(group % parts) * a->rows,
              past = min(first + a->rows, a->out[0]);
    const long n = (long)(group / parts);
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    SRC xn = x + n * a->src_n;
    SRC an = add + n * a->add_n;
    DST yn = y + n * a->dst_n;
    for (int oh = first; oh < past; oh++)
        for (int ow = 0; ow < a->out[1]; ow += TW) {
            const int line = oh * a->stride[0] - a->pad[0], col = ow * SW - a->pad[1];
            const bool inside = col >= 0 && col + SPAN <= a->in[1];
            const long at = ((long)oh * a->out[1] + ow) * a->c;
            for (int k = 0; k < a->c; k += V) {
                FV acc[TW];
                if (inside)
                    FN(tile)(acc, xn, w, k, line, col, true, a);
                else
                    FN(tile)(acc, xn, w, k, line, col, false, a);
                const FV b = FN(bias)(bias, k, a->c, &epi);
#pragma unroll
                for (int t = 0; t < TW; t++)
                    if (ow + t < a->out[1])
                        FN(store)(acc[t], b, an, yn, at + (long)t * a->c + k, V, &epi);
            }
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct depthwise_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
