/* conv_transpose_depthwise.cl: transposed convolution with one channel and one filter a group, gathered; for GPUs.
 *
 *   y[n][c][h][w] = act( sum over r, s of x[n][c][i][j] * w[c][r][s] + bias[c] + add ),
 *   where i*SH = h + pad - r*DH and j*SW = w + pad - s*dil
 *
 * A work-item computes one column of ROWS rows: of each row of x that reaches them it reads KW pixels at most, once.
 * Blocks of rows begin where h + pad is a multiple of SH, the first perhaps above the map, so that which taps reach
 * which rows is known to the compiler.
 * Layouts: x, y, add NCHW with batch strides; w [C][1][KH][KW].
 * Index map: item = ((n * C + c) * blocks + block of rows) * W + w. Work-group: WG items. Local memory: none.
 * Defines: WG (any), INDEX (uint, or ulong, the default: that of items), KH, KW (the window), SH, SW (strides), DH
 * (dilation down), ROWS (a multiple of SH), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef INDEX
#define INDEX ulong
#endif
#include "common/strided.clh"
#include "common/strided_window.clh"
#ifndef FN
#define FN(x) conv_transpose_depthwise_##x
#endif
#ifndef DH
#define DH 1
#endif
#ifndef ROWS
#define ROWS 8
#endif
#define BACK ((KH - 1) * DH / SH)          /* rows of x before the first row's own */
#define LINES (BACK + (ROWS - 1) / SH + 1) /* rows of x that reach a block */

/* The pixels of a row of x that the taps of a row of filters meet at a column, 0 for those that meet none. */
void FN(line)(float v[KW], SRC row, int right, bool valid, const struct conv_args *a)
{
#pragma unroll
    for (int s = 0; s < KW; s++) {
        const int left = right - s * a->dil[2], j = left / SW;
        v[s] = valid && left >= 0 && left % SW == 0 && j < a->in[2] ? row[j] : 0.0f;
    }
}

void FN(column)(float sum[ROWS], SRC plane, SRC wc, int first, int right, const struct conv_args *a)
{
    float f[KH * KW];
#pragma unroll
    for (int t = 0; t < KH * KW; t++)
        f[t] = wc[t];
#pragma unroll
    for (int e = 0; e < LINES; e++) {
        float v[KW];
        const int i = first - BACK + e;
        FN(line)(v, plane + (long)i * a->in[2], right, (uint)i < (uint)a->in[1], a);
#pragma unroll
        for (int r = 0; r < KH; r++) {
            const int row = (e - BACK) * SH + r * DH;
            if (row >= 0 && row < ROWS)
#pragma unroll
                for (int s = 0; s < KW; s++)
                    sum[row] = fma(v[s], f[r * KW + s], sum[row]);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int lead = a->pad[1] % SH;
    INDEX rest = (INDEX)group * WG + LANE;
    TAKE_DIGIT(ow, rest, a->out[2]);
    TAKE_DIGIT(block, rest, (a->out[1] + lead + ROWS - 1) / ROWS);
    TAKE_DIGIT(c, rest, a->c);
    const long n = (long)rest;
    if (n < a->n) {
        const int top = (int)block * ROWS - lead;
        float sum[ROWS];
#pragma unroll
        for (int j = 0; j < ROWS; j++)
            sum[j] = 0.0f;
        FN(column)(sum, x + n * a->src_n + (long)c * a->in[1] * a->in[2], w + c * a->w_k, (top + a->pad[1]) / SH,
                   (int)ow + a->pad[2], a);
#pragma unroll
        for (int j = 0; j < ROWS; j++)
            if (top + j >= 0 && top + j < a->out[1]) {
                const long o = ((long)c * a->out[1] + top + j) * a->out[2] + ow;
                y[n * a->dst_n + o] = EPILOGUE(sum[j], bias, (int)c, add, n * a->add_n + o, a);
            }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
