/* conv_group_tile.cl: 2-D convolution of groups of few channels, a tile of outputs of several filters in registers over
 * which a window of known size slides.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/G + c][oh*SH - ph + r*DH][ow*SW - PAD_W + s*DW] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * A work-item computes four columns of RY rows of FK filters of a group g. Each row of a channel is read once, four
 * pixels at a time where all rows of the maps begin on a boundary of as many, and serves all taps of all these filters.
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl: [blocks of FK filters of a group][C/G][KH*KW]
 * [FK], FK floats on a boundary of as many.
 * Index map: item = ((n * blocks + block) * ceil(P/RY) + rows) * ceil(Q/4) + columns, fewer than 2^32.
 * Work-group: WG items. Local memory: none.
 * Defines: WG (any), FK (2, 4 or 8), and those of window_tile.clh; EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), X_HALF,
 * ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_group_tile_##x
#endif
#include "conv/window_tile.clh"

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_args *a)
{
    const int channels = a->c / a->groups, filters = a->k / a->groups, each = (filters + FK - 1) / FK;
    const uint across = (uint)(a->out[2] + 3) / 4, down = (uint)(a->out[1] + RY - 1) / RY;
    const uint item = (uint)group * WG + LANE, rows = item / across, map = rows / down;
    const uint blocks = (uint)(a->groups * each), n = map / blocks;
    const int ow = (int)(item - rows * across) * 4, oh = (int)(rows - map * down) * RY, block = (int)(map - n * blocks);
    if (n < (uint)a->n) {
        const int height = a->in[1], width = a->in[2], line = oh * SH - a->pad[1];
        const int g = block / each, k = (block - g * each) * FK;
        const bool quads = ((ulong)width | a->src_n | (ulong)x / X_BYTES) % 4 == 0;
        X_SRC planes = x + n * a->src_n + (long)g * channels * height * width;
        SRC wk = w + (long)block * channels * (KH * KW * FK);
        float sum[FK][RY][4];
#pragma unroll
        for (int j = 0; j < FK * RY * 4; j++)
            sum[j / (RY * 4)][j / 4 % RY][j % 4] = 0.0f;
        if (quads)
            for (int c = 0; c < channels; c++)
                FN(slide)(sum, planes + (long)c * height * width, wk + c * (KH * KW * FK), line, WINDOW_FIRST(ow),
                          height, width, true);
        else
            for (int c = 0; c < channels; c++)
                FN(slide)(sum, planes + (long)c * height * width, wk + c * (KH * KW * FK), line, WINDOW_FIRST(ow),
                          height, width, false);
        FN(store)(sum, bias, add, y, n, g * filters + k, filters - k, oh, ow, a);
    }
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
