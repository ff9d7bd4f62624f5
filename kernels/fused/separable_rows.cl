/* separable_rows.cl: separable_fused.cl for CPU devices: a work-item is one tile of 16 pixels of an output row.
 *
 *   mid[c][t] = mid_act( dw_bias[c] + sum_{r,s} dw[c][0][r][s]
 *                        * x[n][c/m][oh*sh - ph + r*dh][(ow + t)*sw - pw + s*dw] )
 *   y[n][k][oh][ow + t] = act( sum_c mid[c][t] * pw[k][c] + bias[k] + add )
 *
 * with m = middle channels per input channel. All rows are vectors over pixels; the product has K filters at a time,
 * and every filter follows from the same middle rows.
 * Layouts: x, y, add NCHW with batch strides; dw [middle][1][R][S]; pw packed by conv_pack.cl:
 * [ceil(K/KB)][middle][KB], missing filters are zeros.
 * Index map: group = (n * P + oh) * ceil(Q/16) + tile of the row.
 * Work-group: WG = 1. Local memory: mid, SCRATCH float4 = CHANNELS * 16 floats.
 * Defines: KB filters at a time (default 8), CHANNELS the most middle channels (default 512), MID_ACT act_* (default
 * act_none), DW_BIAS 0 or 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
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
#include "common/activation_vec.clh"
#ifndef KB
#define KB 8
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
        if (DW_BIAS)
            sum += dw_bias[c];
        vstore16(VECTOR_ACT(MID_ACT)(sum, a->mid_p0, a->mid_p1), c, mid);
    }
}

/* One filter's tile: `count` results at element i of a map of y. */
void FN(finish)(float16 sum, int k, int count, SRC bias, SRC add, DST y, const struct separable_args *a)
{
    float v[16];
    if (EPI_BIAS)
        sum += bias[k];
    float16 other = 0.0f;
    if (EPI_ADD && count == 16) {
        other = vload16(0, add);
    } else if (EPI_ADD) {
        for (int t = 0; t < 16; t++)
            v[t] = t < count ? add[t] : 0.0f;
        other = vload16(0, v);
    }
    if (EPI_ADD == 1)
        sum += other;
    sum = VECTOR_ACT(EPI_ACT)(sum, a->p0, a->p1);
    if (EPI_ADD == 2)
        sum *= other;
    if (count == 16) {
        vstore16(sum, 0, y);
        return;
    }
    vstore16(sum, 0, v);
    for (int t = 0; t < count; t++)
        y[t] = v[t];
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC pw, SRC bias, SRC add, DST y, const struct separable_args *a,
              local float4 *scratch)
{
    const int tiles = (a->out[1] + 15) / 16;
    const int ow = (int)(group % tiles) * 16;
    const int oh = (int)(group / tiles % a->out[0]);
    const long n = (long)(group / tiles / a->out[0]), plane = (long)a->out[0] * a->out[1];
    local float *mid = (local float *)scratch;
    FN(depthwise)(mid, x + n * a->src_n, oh, ow, dw, dw_bias, a);

    const int count = min(16, a->out[1] - ow);
    const long at = (long)oh * a->out[1] + ow;
    SRC wp = pw;
    for (int k0 = 0; k0 < a->k; k0 += KB) {
        float16 sum[KB];
#pragma unroll
        for (int k = 0; k < KB; k++)
            sum[k] = 0.0f;
        for (int c = 0; c < a->mid; c++, wp += KB) {
            const float16 row = vload16(c, mid);
#pragma unroll
            for (int k = 0; k < KB; k++)
                sum[k] = fma(row, (float16)wp[k], sum[k]);
        }
#pragma unroll
        for (int k = 0; k < KB; k++)
            if (k0 + k < a->k)
                FN(finish)(sum[k], k0 + k, count, bias, add + n * a->add_n + (k0 + k) * plane + at,
                           y + n * a->dst_n + (k0 + k) * plane + at, a);
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
