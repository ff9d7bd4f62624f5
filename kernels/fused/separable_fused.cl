/* separable_fused.cl: depthwise convolution, activation and 1x1 convolution in one kernel; what lies between
 * them is computed on the way to local memory and never stored anywhere else.
 *
 *   mid[c][p] = mid_act( sum_{r,s} x[n][c/m][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * dw[c][0][r][s]
 *                        + dw_bias[c] )
 *   y[n][k][p] = act( sum_c pw[k][c] * mid[c][p] + bias[k] + add[n][k][p] )
 *
 * with m = middle channels per input channel. Blocks of filters beyond the first compute their middle anew.
 * Layouts: x, y, add NCHW with batch strides; dw [middle][1][R][S]; pw packed by conv_pack.cl:
 * [ceil(K/BM)][middle][BM], missing filters are zeros.
 * Index map: group = block of filters * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow).
 * Work-group: WG. Local memory: one tile of each factor of the product (conv_tile.clh), TILE_SCRATCH float4;
 * the next tile waits in registers meanwhile.
 * Defines: WG 256, BM, BN 64 or 128, MID_ACT act_* (default act_none), DW_BIAS 0 or 1, EPI_BIAS, EPI_ADD,
 * EPI_ACT (epilogue.clh), X_HALF, ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "fused/separable_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) separable_fused_##x
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#undef TILE_ARGS
#define TILE_ARGS struct separable_args
#include "conv/conv_tile.clh"

/* Middle channels d.. of the pixel whose window has its corner at (ih, iw) of x. */
void FN(fetch_pixel)(float *v, X_SRC x, SRC dw, SRC dw_bias, bool present, int ih, int iw, int d,
                     const struct separable_args *a)
{
    const long plane = (long)a->in[0] * a->in[1];
    const int multiplier = a->mid / a->c;
    float sum[PIXEL_LOADS];
    long channel[PIXEL_LOADS], filter[PIXEL_LOADS];
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++) {
        const int c = min(d + LANE / BN + i * PIXEL_STEP, a->mid - 1); /* beyond the last: met by zero filters */
        channel[i] = c / multiplier * plane;
        filter[i] = c * a->dw_k;
        sum[i] = 0.0f;
    }
    for (int r = 0; r < a->ker[0]; r++)
        for (int s = 0; s < a->ker[1]; s++) {
            const int h = ih + r * a->dil[0], w = iw + s * a->dil[1];
            const bool inside = present && h >= 0 && h < a->in[0] && w >= 0 && w < a->in[1];
            const long at = inside ? (long)h * a->in[1] + w : 0;
#pragma unroll
            for (int i = 0; i < PIXEL_LOADS; i++) {
                const float value = LOAD_X(x, channel[i] + at);
                sum[i] = fma(inside ? value : 0.0f, dw[filter[i] + r * a->ker[1] + s], sum[i]);
            }
        }
#pragma unroll
    for (int i = 0; i < PIXEL_LOADS; i++) {
#if DW_BIAS
        sum[i] += dw_bias[min(d + LANE / BN + i * PIXEL_STEP, a->mid - 1)];
#endif
        const float m = MID_ACT(sum[i], a->mid_p0, a->mid_p1);
        v[i] = d + LANE / BN + i * PIXEL_STEP < a->mid ? m : 0.0f;
    }
}

void FN(body)(ulong group, X_SRC x, SRC dw, SRC dw_bias, SRC pw, SRC bias, ADD_SRC add, Y_DST y,
              const struct separable_args *a, local float4 *scratch)
{
    const long map = (long)a->out[0] * a->out[1], pixels = map * a->n, tiles = (pixels + BN - 1) / BN;
    const int block = (int)(group / tiles);
    const long first = (long)(group % tiles) * BN;
    local float *as = (local float *)scratch, *bs = as + BK * AS;

    const bool present = first + LANE % BN < pixels;
    const long p = min(first + LANE % BN, pixels - 1);
    const int q = (int)(p % map);
    const int ih = q / a->out[1] * a->stride[0] - a->pad[0], iw = q % a->out[1] * a->stride[1] - a->pad[1];
    X_SRC xp = x + p / map * a->src_n;
    SRC wp = pw + (long)block * a->mid * BM;

    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float f[FILTER_LOADS], v[PIXEL_LOADS];
    FN(fetch_filters)(f, wp, 0, a->mid);
    FN(fetch_pixel)(v, xp, dw, dw_bias, present, ih, iw, 0, a);
    for (int d = 0; d < a->mid; d += BK) {
        barrier(CLK_LOCAL_MEM_FENCE);
        FN(store_local)(as, bs, f, v);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (d + BK < a->mid) {
            FN(fetch_filters)(f, wp, d + BK, a->mid);
            FN(fetch_pixel)(v, xp, dw, dw_bias, present, ih, iw, d + BK, a);
        }
        FN(tile_multiply)(as, bs, acc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FN(store)(acc, block * BM, a->k, first, pixels, map, bias, add, y, a);
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC pw, ulong pw_off,
                SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y, ulong y_off,
                const struct separable_args a)
{
    local float4 scratch[TILE_SCRATCH];
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, pw + pw_off, bias + bias_off, add + add_off,
             y + y_off, &a, scratch);
}
