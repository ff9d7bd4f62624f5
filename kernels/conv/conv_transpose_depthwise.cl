/* conv_transpose_depthwise.cl: transposed convolution with one channel and one filter a group, gathered; for GPUs.
 *
 *   y[n][c][h][w] = act( sum over r, s of x[n][c][i][j] * w[c][r][s] + bias[c] + add ),
 *   where i*SH = h + pad - r*dil and j*SW = w + pad - s*dil
 *
 * Layouts: x, y, add NCHW with batch strides; w [C][1][KH][KW].
 * Index map: item = ((n * C + c) * H + h) * W + w. Work-group: WG items. Local memory: none.
 * Defines: WG (any), KH, KW (the window), SH, SW (strides), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_transpose_depthwise_##x
#endif
#ifndef KH
#define KH 3
#endif
#ifndef KW
#define KW 3
#endif
#ifndef SH
#define SH 2
#endif
#ifndef SW
#define SW 2
#endif

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const ulong item = group * WG + LANE, plane = item / (uint)(a->out[1] * a->out[2]);
    const uint n = (uint)(plane / (uint)a->c), c = (uint)(plane - (ulong)n * (uint)a->c);
    if (n < (uint)a->n) {
        const uint at = (uint)(item - plane * (uint)(a->out[1] * a->out[2])), row = at / (uint)a->out[2];
        const int down = (int)row + a->pad[1], right = (int)(at - row * (uint)a->out[2]) + a->pad[2];
        SRC xc = x + n * a->src_n + (long)c * a->in[1] * a->in[2];
        SRC wc = w + c * a->w_k;
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < KH; r++) {
            const int top = down - r * a->dil[1], i = top / SH;
            if (top >= 0 && top % SH == 0 && i < a->in[1])
#pragma unroll
                for (int s = 0; s < KW; s++) {
                    const int left = right - s * a->dil[2], j = left / SW;
                    if (left >= 0 && left % SW == 0 && j < a->in[2])
                        sum = fma(xc[i * a->in[2] + j], wc[r * KW + s], sum);
                }
        }
        const long o = (long)c * a->out[1] * a->out[2] + at;
        y[n * a->dst_n + o] = EPILOGUE(sum, bias, (int)c, add, n * a->add_n + o, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
