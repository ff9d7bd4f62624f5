/* conv_direct.cl: 2-D convolution with register tiles straight from global memory; the portable form.
 *
 *   y[n][k][oh][ow] = act( sum_{r,s,c} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * A work-item computes TP pixels, PL apart in the row-major order of (n, oh, ow), times 8 filters. Neighbours
 * read neighbouring pixels and the same filters.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl with TAP_MAJOR 1:
 * [groups][blocks][R][S][C/groups][WG/PL*8], where blocks = ceil(K/groups / (WG/PL*8)) and missing filters
 * are zeros.
 * Index map: group = block of filters * ceil(N*P*Q / (PL*TP)) + tile of pixels; lane = 8 filters * PL +
 * pixel.
 * Work-group: WG. Local memory: none.
 * Defines: WG 256, PL, TP (conv_direct.clh), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_direct_##x
#endif
#include "conv/conv_direct.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int cg = a->c / a->groups, kg = a->k / a->groups;
    const int blocks = (kg + KB - 1) / KB;
    const long map = (long)a->out[1] * a->out[2];
    const long pixels = map * a->n;
    const long tiles = (pixels + PL * TP - 1) / (PL * TP);
    const int block = (int)(group / tiles), g = block / blocks;
    const long first = (long)(group % tiles) * (PL * TP) + LANE % PL;
    SRC wp = w + (long)block * a->ker[1] * a->ker[2] * cg * KB + LANE / PL * 8;

    long item[TP];
    int ih[TP], iw[TP];
    float8 acc[TP];
#pragma unroll
    for (int t = 0; t < TP; t++) {
        const long p = min(first + t * PL, pixels - 1);
        const int at = (int)(p % map);
        ih[t] = at / a->out[2] * a->stride[1] - a->pad[1];
        iw[t] = at % a->out[2] * a->stride[2] - a->pad[2];
        item[t] = p / map * a->src_n + (long)g * cg * a->in[1] * a->in[2];
    }
    FN(tile)(acc, x, wp, item, ih, iw, a);

    const int k0 = block % blocks * KB + LANE / PL * 8; /* within the group */
#pragma unroll
    for (int t = 0; t < TP; t++) {
        const long p = first + t * PL;
        if (p < pixels) {
            const long n = p / map;
            float v[8];
            vstore8(acc[t], 0, v);
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (k0 + j < kg) {
                    const int k = g * kg + k0 + j;
                    const long i = k * map + p % map;
                    y[n * a->dst_n + i] = EPILOGUE(v[j], bias, k, add, n * a->add_n + i, a);
                }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
