/* conv_pool_direct.cl: 2-D convolution, epilogue and pooling in registers, straight from global memory; the
 * portable form.
 *
 *   y[n][k][ph][pw] = max or mean over i < PH, j < PW of m[n][k][ph * PH + i][pw * PW + j]
 *   m[n][k][oh][ow] = act( sum_{r,s,c} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * NaN wins a maximum. A work-item computes the PH * PW pixels of one window times 8 filters
 * (conv_direct.clh); what lies beyond the last whole window is not computed.
 * Layouts: x, y, add NCHW with batch strides, add of the convolution's size; w packed by conv_pack.cl with
 * TAP_MAJOR 1: [groups][blocks][R][S][C/groups][WG/PL*8], where blocks = ceil(K/groups / (WG/PL*8)) and
 * missing filters are zeros.
 * Index map: group = block of filters * ceil(N * pixels of y / PL) + tile of pixels in the order of (n, ph,
 * pw); lane = 8 filters * PL + pixel.
 * Work-group: WG. Local memory: none.
 * Defines: WG 256, PL (conv_direct.clh; TP follows), PH, PW, AVG (conv_pool.clh), EPI_BIAS, EPI_ADD, EPI_ACT
 * (epilogue.clh). */
#include "common/clcnn.clh"
#include "fused/conv_pool_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_pool_direct_##x
#endif
#include "fused/conv_pool.clh"
#undef TP
#define TP (PH * PW)
#include "conv/conv_direct.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_pool_args *p)
{
    const struct conv_args *a = &p->conv;
    const int cg = a->c / a->groups, kg = a->k / a->groups;
    const int blocks = (kg + KB - 1) / KB;
    const long map = (long)a->out[1] * a->out[2], pooled_map = (long)p->pooled[0] * p->pooled[1];
    const long pixels = pooled_map * a->n;
    const long tiles = (pixels + PL - 1) / PL;
    const int block = (int)(group / tiles), g = block / blocks;
    const long pixel = (long)(group % tiles) * PL + LANE % PL;
    const long n = min(pixel, pixels - 1) / pooled_map;
    const int at = (int)(min(pixel, pixels - 1) % pooled_map);
    const int oh = at / p->pooled[1] * PH, ow = at % p->pooled[1] * PW;
    SRC wp = w + (long)block * a->ker[1] * a->ker[2] * cg * KB + LANE / PL * 8;

    long item[TP];
    int ih[TP], iw[TP];
    float8 acc[TP];
#pragma unroll
    for (int t = 0; t < TP; t++) {
        item[t] = n * a->src_n + (long)g * cg * a->in[1] * a->in[2];
        ih[t] = (oh + t / PW) * a->stride[1] - a->pad[1];
        iw[t] = (ow + t % PW) * a->stride[2] - a->pad[2];
    }
    FN(tile)(acc, x, wp, item, ih, iw, a);

    const int k0 = block % blocks * KB + LANE / PL * 8; /* within the group */
    float pooled[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        pooled[j] = POOL_START;
    if (pixel < pixels) {
#pragma unroll
        for (int t = 0; t < TP; t++) {
            float v[8];
            vstore8(acc[t], 0, v);
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (k0 + j < kg) {
                    const int k = g * kg + k0 + j;
                    const long i = k * map + (long)(oh + t / PW) * a->out[2] + ow + t % PW;
                    const float m = EPILOGUE(v[j], bias, k, add, n * a->add_n + i, a);
                    pooled[j] = POOL(pooled[j], m);
                }
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (k0 + j < kg)
                y[n * a->dst_n + (g * kg + k0 + j) * pooled_map + at] = POOL_END(pooled[j]);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_pool_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
