/* conv_depthwise_tile.cl: depthwise 2-D convolution, a tile of outputs in registers over which a window of known size
 * slides.
 *
 *   y[n][k][oh][ow] = act( sum_{r,s} x[n][k/m][oh*SH - ph + r*DH][ow*SW - PAD_W + s*DW] * w[k][0][r][s]
 *                          + bias[k] + add )
 *
 * with m = K/C filters a channel. A work-item computes four columns of RY rows of an output plane. Each row of its
 * input is read once, four pixels at a time where all rows of the maps begin on a boundary of as many, and serves all
 * taps.
 * Layouts: x, y, add NCHW with batch strides; w [K][1][KH][KW].
 * Index map: item = ((n * K + k) * ceil(P/RY) + rows) * ceil(Q/4) + columns, fewer than 2^32.
 * Work-group: WG items. Local memory: none.
 * Defines: WG (any), RY, KH, KW, SH, SW, DH, DW, PAD_W (window_tile.clh), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh),
 * X_HALF, ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_depthwise_tile_##x
#endif
#include "conv/window_tile.clh"

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_args *a)
{
    const uint across = (uint)(a->out[2] + 3) / 4, down = (uint)(a->out[1] + RY - 1) / RY;
    const uint item = (uint)group * WG + LANE, rows = item / across, map = rows / down;
    const uint n = map / (uint)a->k;
    const int ow = (int)(item - rows * across) * 4, oh = (int)(rows - map * down) * RY, k = (int)(map - n * a->k);
    if (n < (uint)a->n) {
        const int height = a->in[1], width = a->in[2], line = oh * SH - a->pad[1];
        X_SRC plane = x + n * a->src_n + (long)(k / (a->k / a->c)) * height * width;
        SRC wk = w + k * a->w_k;
        float sum[1][RY][4];
#pragma unroll
        for (int j = 0; j < RY * 4; j++)
            sum[0][j / 4][j % 4] = 0.0f;
        if (((ulong)width | a->src_n | (ulong)x / X_BYTES) % 4 == 0)
            FN(slide)(sum, plane, wk, line, WINDOW_FIRST(ow), height, width, true);
        else
            FN(slide)(sum, plane, wk, line, WINDOW_FIRST(ow), height, width, false);
        FN(store)(sum, bias, add, y, n, k, 1, oh, ow, a);
    }
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
