/* conv_rows.cl: 2-D convolution for CPU devices: a work-item is one register tile.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * Tile: T pixels of an output row by KV float16 of filters, accumulators in registers. For every input row
 * the columns of the tile are copied (zeros outside the image) to a private row, whose elements are then
 * broadcast.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl, filters innermost:
 * [groups][blocks][C/groups][R][S][KV*16], where blocks = ceil(K/groups / (KV*16)) and missing filters are
 * zeros.
 * Index map: group = ((block of filters * N + n) * P + oh) * ceil(Q/T) + tile of the row.
 * Work-group: WG = 1. Local memory: none.
 * Defines: T 7, 14 or 28 pixels (KV * T = 28 fits 32 vector registers), KV 1, 2 or 4, ROW columns of the
 * private row (a multiple of 16), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#include "vec.clh"
#ifndef FN
#define FN(x) conv_rows_##x
#endif
#include "columns.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef ROW
#define ROW 128
#endif

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int tiles = (a->out[2] + T - 1) / T;
    const int ow = (int)(group % tiles) * T;
    ulong rest = group / tiles;
    const int oh = (int)(rest % a->out[1]);
    rest /= a->out[1];
    const int n = (int)(rest % a->n);
    const int block = (int)(rest / a->n);
    const int cg = a->c / a->groups, kg = a->k / a->groups;
    const int blocks = (kg + KV * 16 - 1) / (KV * 16);
    const int g = block / blocks;
    const int k0 = block % blocks * (KV * 16); /* first filter within its group */
    const long plane = (long)a->in[1] * a->in[2];
    const long size = plane * a->c;
    const int step = a->stride[2];
    const int col = ow * step - a->pad[2];
    const int cols = (T - 1) * step + (a->ker[2] - 1) * a->dil[2] + 1;
    SRC xn = x + n * a->src_n;
    SRC wp = w + (long)block * cg * a->ker[1] * a->ker[2] * (KV * 16);

    float16 acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = 0.0f;
    float row[ROW] __attribute__((aligned(64)));
    for (int c = 0; c < cg; c++)
        for (int r = 0; r < a->ker[1]; r++, wp += a->ker[2] * (KV * 16)) {
            const int ih = oh * a->stride[1] - a->pad[1] + r * a->dil[1];
            if (ih < 0 || ih >= a->in[1])
                continue;
            for (int j = 0; j < cols; j += 16)
                vstore16(FN(columns)(xn, (g * cg + c) * plane + (long)ih * a->in[2], col + j, 1, a->in[2], -1,
                                     size),
                         0, row + j);
            for (int s = 0; s < a->ker[2]; s++) {
                float16 f[KV];
#pragma unroll
                for (int v = 0; v < KV; v++)
                    f[v] = vload16(s * KV + v, wp);
#pragma unroll
                for (int t = 0; t < T; t++) {
                    const float16 value = row[s * a->dil[2] + t * step];
#pragma unroll
                    for (int v = 0; v < KV; v++)
                        acc[t][v] = fma(value, f[v], acc[t][v]);
                }
            }
        }

    /* Filters become rows of the output. */
    float tile[T][KV * 16];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            vstore16(acc[t][v], v, tile[t]);
    const int pixels = min(T, a->out[2] - ow), filters = min(KV * 16, kg - k0);
    for (int k = 0; k < filters; k++) {
        const int kk = g * kg + k0 + k;
        const long i = ((long)kk * a->out[1] + oh) * a->out[2] + ow;
        for (int t = 0; t < pixels; t++)
            y[n * a->dst_n + i + t] = EPILOGUE(tile[t][k], bias, kk, add, n * a->add_n + i + t, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
