/* conv_depthwise.cl: depthwise 2-D convolution (one input channel a group), weights of a channel in
 * registers.
 *
 *   y[n][k][oh][ow] = act( sum_{r,s} x[n][k/m][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][0][r][s]
 *                          + bias[k] + add )
 *
 * with m = K/C filters a channel. A work-item computes V columns of RY rows of one output plane.
 * Layouts: x, y, add NCHW with batch strides; w [K][1][R][S].
 * Index map: item = ((n * K + k) * ceil(P/RY) + rows) * ceil(Q/V) + columns.
 * Work-group: WG items. Local memory: none.
 * Defines: WG (any), V 4, 8 or 16, RY (any; default 4), KH and KW the kernel size when it is unrolled (dilation 1;
 * 0: from the argument block), SW the stride along a row (0: from the argument block), EPI_BIAS, EPI_ADD, EPI_ACT
 * (epilogue.clh), X_HALF, ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_depthwise_##x
#endif
#include "common/columns.clh"
#ifndef RY
#define RY 4
#endif
#ifndef KH
#define KH 0
#endif
#ifndef KW
#define KW 0
#endif
#ifndef SW
#define SW 0
#endif
#define STEP_W (SW ? SW : a->stride[2])
#define SIZE_H (KH ? KH : a->ker[1])
#define SIZE_W (KW ? KW : a->ker[2])
#define UNROLL_H (KH ? KH : 1)
#define UNROLL_W (KW ? KW : 1)
#define DIL_H (KH ? 1 : a->dil[1])
#define DIL_W (KW ? 1 : a->dil[2])

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_args *a)
{
    const int across = (a->out[2] + V - 1) / V, down = (a->out[1] + RY - 1) / RY;
    const ulong item = group * WG + LANE;
    if (item < (ulong)a->n * a->k * across * down) {
        const int ow = (int)(item % across) * V;
        ulong rest = item / across;
        const int oh = (int)(rest % down) * RY;
        rest /= down;
        const int k = (int)(rest % a->k), n = (int)(rest / a->k);
        const int c = k / (a->k / a->c);
        const long plane = (long)a->in[1] * a->in[2];
        const int col = ow * STEP_W - a->pad[2], line = oh * a->stride[1] - a->pad[1];
        X_SRC xn = x + n * a->src_n;
        SRC wk = w + k * a->w_k;
        FV acc[RY];
#pragma unroll
        for (int j = 0; j < RY; j++)
            acc[j] = 0.0f;
#pragma unroll UNROLL_H
        for (int r = 0; r < SIZE_H; r++)
#pragma unroll UNROLL_W
            for (int s = 0; s < SIZE_W; s++) {
                const FV tap = wk[r * SIZE_W + s];
#pragma unroll
                for (int j = 0; j < RY; j++) {
                    const int ih = line + j * a->stride[1] + r * DIL_H;
                    const FV v = FN(columns)(xn, c * plane + (long)ih * a->in[2], col + s * DIL_W, STEP_W, a->in[2],
                                             ih >= 0 && ih < a->in[1] ? -1 : 0, plane * a->c);
                    acc[j] = fma(v, tap, acc[j]);
                }
            }
#pragma unroll
        for (int j = 0; j < RY; j++)
            if (oh + j < a->out[1]) {
                const long i = ((long)k * a->out[1] + oh + j) * a->out[2] + ow;
                const int count = min(V, a->out[2] - ow);
                float v[V];
                KEEPV(acc[j], v, 0);
                for (int t = 0; t < count; t++)
                    STORE_Y(EPILOGUE_OF(v[t], bias, k, LOAD_ADD(add, n * a->add_n + i + t), a), y,
                            n * a->dst_n + i + t);
            }
    }
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
