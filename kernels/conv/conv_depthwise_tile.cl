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
 * Defines: WG (any), RY (any), KH, KW (the window), SH, SW (strides), DH, DW (dilations), PAD_W (padding in front of a
 * row), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), X_HALF, ADD_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_depthwise_tile_##x
#endif
#ifndef RY
#define RY 1
#endif
#ifndef KH
#define KH 3
#endif
#ifndef KW
#define KW 3
#endif
#ifndef SH
#define SH 1
#endif
#ifndef SW
#define SW 1
#endif
#ifndef DH
#define DH 1
#endif
#ifndef DW
#define DW 1
#endif
#ifndef PAD_W
#define PAD_W 1
#endif
#define LEAD ((4 - PAD_W % 4) % 4) /* pixels from a boundary of four to the window */
#define SPAN (3 * SW + (KW - 1) * DW + 1)
#define QUADS ((LEAD + SPAN + 3) / 4)
#define LINES ((RY - 1) * SH + (KH - 1) * DH + 1)

/* Pixels first.. of a row of `width`, with zeros outside. quads: all of four are inside, or none, and lie on a
 * boundary. */
void FN(read)(float v[QUADS * 4], X_SRC row, int first, int width, bool valid, bool quads)
{
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        if (quads) {
            float4 four = 0.0f;
            if (valid && (uint)(first + 4 * q) < (uint)width)
                four = LOAD_X4(row + first + 4 * q);
            vstore4(four, q, v);
        } else {
#pragma unroll
            for (int e = 4 * q; e < 4 * q + 4; e++) {
                v[e] = 0.0f;
                if (e >= LEAD && e < LEAD + SPAN && valid && (uint)(first + e) < (uint)width)
                    v[e] = LOAD_X(row, first + e);
            }
        }
}

/* The tile at output row oh and input column `first` of a plane of `height` rows. */
void FN(slide)(float sum[RY][4], X_SRC plane, SRC wk, int line, int first, int height, int width, bool quads)
{
#pragma unroll
    for (int i = 0; i < LINES; i++) {
        float v[QUADS * 4];
        FN(read)(v, plane + (long)(line + i) * width, first, width, (uint)(line + i) < (uint)height, quads);
#pragma unroll
        for (int j = 0; j < RY; j++)
            if (i >= j * SH && (i - j * SH) % DH == 0 && (i - j * SH) / DH < KH)
#pragma unroll
                for (int s = 0; s < KW; s++) {
                    const float tap = wk[(i - j * SH) / DH * KW + s];
#pragma unroll
                    for (int t = 0; t < 4; t++)
                        sum[j][t] = fma(v[LEAD + t * SW + s * DW], tap, sum[j][t]);
                }
    }
}

void FN(body)(ulong group, X_SRC x, SRC w, SRC bias, ADD_SRC add, Y_DST y, const struct conv_args *a)
{
    const uint across = (uint)(a->out[2] + 3) / 4, down = (uint)(a->out[1] + RY - 1) / RY;
    const uint item = (uint)group * WG + LANE, rows = item / across, map = rows / down;
    const uint n = map / (uint)a->k;
    const int ow = (int)(item - rows * across) * 4, oh = (int)(rows - map * down) * RY, k = (int)(map - n * a->k);
    if (n < (uint)a->n) {
        const int height = a->in[1], width = a->in[2], line = oh * SH - a->pad[1], first = ow * SW - PAD_W - LEAD;
        X_SRC plane = x + n * a->src_n + (long)(k / (a->k / a->c)) * height * width;
        SRC wk = w + k * a->w_k;
        float sum[RY][4];
#pragma unroll
        for (int j = 0; j < RY * 4; j++)
            sum[j / 4][j % 4] = 0.0f;
        if (((ulong)width | a->src_n | (ulong)x / X_BYTES) % 4 == 0)
            FN(slide)(sum, plane, wk, line, first, height, width, true);
        else
            FN(slide)(sum, plane, wk, line, first, height, width, false);
        const ulong apart =
            (ulong)a->out[2] | a->dst_n | (ulong)y / Y_BYTES | (EPI_ADD ? a->add_n | (ulong)add / ADD_BYTES : 0);
#pragma unroll
        for (int j = 0; j < RY; j++)
            if (oh + j < a->out[1]) {
                const long at = ((long)k * a->out[1] + oh + j) * a->out[2] + ow;
                Y_DST to = y + n * a->dst_n + at;
                ADD_SRC other = add + n * a->add_n + at;
                if (apart % 4 == 0) {
                    float4 four = 0.0f, result;
#if EPI_ADD
                    four = LOAD_ADD4(other);
#endif
                    result.x = EPILOGUE_OF(sum[j][0], bias, k, four.x, a);
                    result.y = EPILOGUE_OF(sum[j][1], bias, k, four.y, a);
                    result.z = EPILOGUE_OF(sum[j][2], bias, k, four.z, a);
                    result.w = EPILOGUE_OF(sum[j][3], bias, k, four.w, a);
                    STORE_Y4(result, to);
                } else {
#pragma unroll
                    for (int t = 0; t < 4; t++)
                        if (ow + t < a->out[2])
                            STORE_Y(EPILOGUE_OF(sum[j][t], bias, k, LOAD_ADD(other, t), a), to, t);
                }
            }
    }
}

KERNEL FN(main)(X_SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
