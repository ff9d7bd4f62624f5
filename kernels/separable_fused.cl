/* separable_fused.cl: depthwise convolution, activation and 1x1 convolution in one kernel; what lies between them stays in
 * local memory.
 *
 *   mid[c][p] = mid_act( sum_{r,s} x[n][c/m][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *   y[n][k][p] = act( sum_c mid[c][p] * pw[k][c] + bias[k] + add[n][k][p] )
 *
 * with m = middle channels per input channel. A group computes PX pixels of one image, in row-major order, for all middle
 * channels and then for all filters, so that nothing is computed twice.
 * Layouts: x, y, add NCHW with batch strides; dw [middle][1][R][S]; pw packed by conv_pack.cl: [ceil(K/KB)][middle][KB]
 * with KB = WG/(PX/4)*4, missing filters are zeros.
 * Index map: group = n * ceil(P*Q / PX) + tile of pixels; first lane = channel * PX + pixel, then lane = 4 filters *
 * PX/4 + 4 pixels.
 * Work-group: WG. Local memory: mid, SCRATCH float4 = CHANNELS * PX floats.
 * Defines: WG 256, PX 8, 16 or 32 pixels, CHANNELS the most middle channels (default 1024), MID_ACT act_* (default
 * act_none), DW_BIAS 0 or 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#ifndef FN
#define FN(x) separable_fused_##x
#endif
#ifndef PX
#define PX 8
#endif
#ifndef CHANNELS
#define CHANNELS 1024
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#define KB (WG / (PX / 4) * 4)
#define SCRATCH (CHANNELS * PX / 4)

/* The middle channels of this work-item's pixel. */
void FN(depthwise)(local float *mid, long n, int p, SRC x, SRC dw, SRC dw_bias, const struct separable_args *a)
{
    const int ih = p / a->out[1] * a->stride[0] - a->pad[0], iw = p % a->out[1] * a->stride[1] - a->pad[1];
    const long plane = (long)a->in[0] * a->in[1];
    const bool present = p < a->out[0] * a->out[1];
    for (int c = LANE / PX; c < a->mid; c += WG / PX) {
        SRC xc = x + n * a->src_n + c / (a->mid / a->c) * plane;
        SRC wc = dw + c * a->dw_k;
        float sum = 0.0f;
        for (int r = 0; r < a->ker[0]; r++)
            for (int s = 0; s < a->ker[1]; s++) {
                const int h = ih + r * a->dil[0], w = iw + s * a->dil[1];
                if (present && h >= 0 && h < a->in[0] && w >= 0 && w < a->in[1])
                    sum = fma(xc[(long)h * a->in[1] + w], wc[r * a->ker[1] + s], sum);
            }
#if DW_BIAS
        sum += dw_bias[c];
#endif
        mid[c * PX + LANE % PX] = MID_ACT(sum, a->mid_p0, a->mid_p1);
    }
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC pw, SRC bias, SRC add, DST y, const struct separable_args *a,
              local float4 *scratch)
{
    const int map = a->out[0] * a->out[1], tiles = (map + PX - 1) / PX;
    const long n = (long)(group / tiles);
    const int first = (int)(group % tiles) * PX;
    local float *mid = (local float *)scratch;
    FN(depthwise)(mid, n, first + LANE % PX, x, dw, dw_bias, a);
    barrier(CLK_LOCAL_MEM_FENCE);

    const int piece = LANE % (PX / 4), lane_k = LANE / (PX / 4) * 4;
    for (int k0 = lane_k; k0 < a->k; k0 += KB) {
        float4 acc[4] = {0.0f, 0.0f, 0.0f, 0.0f}; /* filters of a pixel piece */
        SRC wp = pw + (long)(k0 / KB) * a->mid * KB + lane_k;
#pragma unroll 4
        for (int c = 0; c < a->mid; c++) {
            const float4 v = scratch[c * (PX / 4) + piece];
            const float4 f = vload4(0, wp + (long)c * KB);
            acc[0] = fma(v, f.s0, acc[0]);
            acc[1] = fma(v, f.s1, acc[1]);
            acc[2] = fma(v, f.s2, acc[2]);
            acc[3] = fma(v, f.s3, acc[3]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float v[4];
            vstore4(acc[j], 0, v);
#pragma unroll
            for (int t = 0; t < 4; t++) {
                const int k = k0 + j, p = first + piece * 4 + t;
                if (k < a->k && p < map)
                    y[n * a->dst_n + (long)k * map + p] =
                        EPILOGUE(v[t], bias, k, add, n * a->add_n + (long)k * map + p, a);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC pw, ulong pw_off, SRC bias,
                ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off, const struct separable_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, pw + pw_off, bias + bias_off, add + add_off, y + y_off,
             &a, scratch);
}
