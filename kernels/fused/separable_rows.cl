/* separable_rows.cl: separable_fused.cl for CPU devices: a work-item is one tile of T pixels of an output
 * row.
 *
 *   mid[c][t] = mid_act( dw_bias[c] + sum_{r,s} dw[c][0][r][s]
 *                        * x[n][c/m][oh*sh - ph + r*dh][(ow + t)*sw - pw + s*dw] )
 *   y[n][k][oh][ow + t] = act( sum_c mid[c][t] * pw[k][c] + bias[k] + add )
 *
 * with m = middle channels per input channel. The middle rows are vectors over pixels; the product is a
 * register tile of T pixels x KV float16 of filters, as in conv_rows.cl. Every filter follows from the same
 * middle rows.
 * Layouts: x, y, add NCHW with batch strides; dw [middle][1][R][S]; pw packed by conv_pack.cl:
 * [ceil(K/(KV*16))][middle][KV*16], missing filters are zeros.
 * Index map: group = (n * P + oh) * ceil(Q/T) + tile of the row.
 * Work-group: WG = 1. Local memory: mid, SCRATCH float4 = CHANNELS * 16 floats.
 * Defines: T up to 16 pixels (default 14), KV (default 2), CHANNELS the most middle channels (default 512),
 * MID_ACT act_* (default act_none), DW_BIAS 0 or 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "fused/separable_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) separable_rows_##x
#endif
#include "common/columns.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef CHANNELS
#define CHANNELS 512
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#define SCRATCH (CHANNELS * 4)

void FN(depthwise)(local float *mid, SRC x, int oh, int ow, SRC dw, SRC dw_bias, const struct separable_args *a)
{
    const int step = a->stride[1];
    const int line = oh * a->stride[0] - a->pad[0], col = ow * step - a->pad[1];
    const long plane = (long)a->in[0] * a->in[1], size = plane * a->c;
    for (int c = 0; c < a->mid; c++) {
        const long channel = c / (a->mid / a->c) * plane;
        SRC wc = dw + c * a->dw_k;
        float16 sum = 0.0f;
        for (int r = 0; r < a->ker[0]; r++) {
            const int ih = line + r * a->dil[0];
            if (ih >= 0 && ih < a->in[0])
                for (int s = 0; s < a->ker[1]; s++)
                    sum = fma(
                        FN(columns)(x, channel + (long)ih * a->in[1], col + s * a->dil[1], step, a->in[1], -1, size),
                        (float16)wc[r * a->ker[1] + s], sum);
        }
        float v[16];
        vstore16(sum, 0, v);
        for (int t = 0; t < 16; t++) {
#if DW_BIAS
            v[t] += dw_bias[c];
#endif
            mid[c * 16 + t] = MID_ACT(v[t], a->mid_p0, a->mid_p1);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC pw, SRC bias, SRC add, DST y, const struct separable_args *a,
              local float4 *scratch)
{
    const int tiles = (a->out[1] + T - 1) / T;
    const int ow = (int)(group % tiles) * T;
    const int oh = (int)(group / tiles % a->out[0]);
    const long n = (long)(group / tiles / a->out[0]);
    local float *mid = (local float *)scratch;
    FN(depthwise)(mid, x + n * a->src_n, oh, ow, dw, dw_bias, a);

    const int pixels = min(T, a->out[1] - ow);
    SRC wp = pw;
    for (int k0 = 0; k0 < a->k; k0 += KV * 16) {
        float16 acc[T][KV];
#pragma unroll
        for (int t = 0; t < T; t++)
#pragma unroll
            for (int v = 0; v < KV; v++)
                acc[t][v] = 0.0f;
        for (int c = 0; c < a->mid; c++, wp += KV * 16) {
            float16 f[KV];
#pragma unroll
            for (int v = 0; v < KV; v++)
                f[v] = vload16(v, wp);
#pragma unroll
            for (int t = 0; t < T; t++)
#pragma unroll
                for (int v = 0; v < KV; v++)
                    acc[t][v] = fma((float16)mid[c * 16 + t], f[v], acc[t][v]);
        }
        float tile[T][KV * 16];
#pragma unroll
        for (int t = 0; t < T; t++)
#pragma unroll
            for (int v = 0; v < KV; v++)
                vstore16(acc[t][v], v, tile[t]);
        for (int k = k0; k < min(k0 + KV * 16, a->k); k++) {
            const long i = ((long)k * a->out[0] + oh) * a->out[1] + ow;
            for (int t = 0; t < pixels; t++)
                y[n * a->dst_n + i + t] = EPILOGUE(tile[t][k - k0], bias, k, add, n * a->add_n + i + t, a);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC pw, ulong pw_off,
                SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off, const struct separable_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, pw + pw_off, bias + bias_off, add + add_off,
             y + y_off, &a, scratch);
}
