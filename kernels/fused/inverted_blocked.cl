/* inverted_blocked.cl: a 1x1 convolution that makes the channels more, an activation, a depthwise convolution, an
 * activation and a 1x1 convolution, of maps with channels in blocks, for CPU devices. Of the widened map only the rows
 * under a window are kept, in a core's cache.
 *
 *   wide[m][i] = expand_act( sum_c x[n][c][i] * ew[m][c] + eb[m] )
 *   mid[m][t]  = mid_act( sum_{r,s} wide[m][oh*sh - ph + r][(ow + t)*sw - pw + s] * dw[m][0][r][s] + dw_bias[m] )
 *   y[n][k][oh][ow + t] = act( sum_m mid[m][t] * pw[k][m] + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides, W at least T; ew packed [ceil(M/(KV*V))][C][KV*V] by
 * conv_pack.cl with zeros past the last filter; dw, pw packed (separable_tile.clh).
 * Rows of the widened map: [ceil(M/V)][R][W][V], row i in place i mod R. Each is made once, when the first window comes
 * to it: by tiles of T pixels and KV vectors, of which the last begins where it still is inside of the row.
 * Index map: group = n * runs + run; a work-item computes `rows` output rows of one image from top to bottom.
 * Work-group: WG = 1. Local memory: the rows, ROWS_HELD floats, and mid, CHANNELS * T floats.
 * Defines: V channels of a block, 16 or 8; ROWS_HELD floats (a multiple of 16; default 16384); EXPAND_ACT act_*
 * (default act_none); T, KV, CHANNELS, MID_ACT, DW_BIAS (separable_tile.clh); DT, KH, KW, SW (depthwise_tile.clh);
 * EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "fused/separable_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#include "common/prefetch.clh"
#include "common/block_channels.clh"
#ifndef FN
#define FN(x) inverted_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#define DEPTHWISE_SRC const local float *
#define DEPTHWISE_ROWS(g) (g)->ker[0]
#define DEPTHWISE_ROW(ih, g) ((ih) % (g)->ker[0])
#include "conv_cpu/depthwise_tile.clh"
#include "fused/separable_tile.clh"
#ifndef ROWS_HELD
#define ROWS_HELD 16384
#endif
#ifndef EXPAND_ACT
#define EXPAND_ACT act_none
#endif
#define SCRATCH ((ROWS_HELD + CHANNELS * T) / 4)

/* A tile of the widened row: `to` at its first pixel in the first vector, whose next one is `step` floats further. */
void FN(expand_tile)(local float *to, long step, SRC x, SRC w, SRC bias, int m, const struct inverted_args *b)
{
    const struct separable_args *a = &b->tail.shape;
    const float low = b->expand.p0, high = b->expand.p1;
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = 0.0f;
    for (int c = 0; c < b->c; c += V, x += (long)a->in[0] * a->in[1] * V) {
        const int lanes = min(V, b->c - c);
        UNROLL_CHANNELS for (int j = 0; j < lanes; j++, w += KV * V)
        {
            MULTIPLY_CHANNEL(x, V, j, w, 0, T, NONE_SOON);
        }
    }
#pragma unroll
    for (int v = 0; v < KV; v++)
        if (m + v * V < a->c) {
            const FV shift = FN(bias)(bias, m + v * V, a->c, &b->expand);
#pragma unroll
            for (int t = 0; t < T; t++)
                SHAREV(VECTOR_ACT(EXPAND_ACT)(acc[t][v] + shift, low, high), to, v * step + t * V);
        }
}

/* Row ih of the widened map. */
void FN(expand)(local float *wide, SRC image, SRC w, SRC bias, int ih, const struct inverted_args *b)
{
    const struct separable_args *a = &b->tail.shape;
    const int width = a->in[1];
    const long step = (long)a->ker[0] * width * V;
    SRC row = image + (long)ih * width * V;
    local float *to = wide + (long)(ih % a->ker[0]) * width * V;
    for (int m = 0; m < a->c; m += KV * V, w += (long)b->c * KV * V, to += KV * step)
        for (int iw = 0; iw < width; iw += T) {
            const long at = (long)min(iw, width - T) * V;
            FN(expand_tile)(to + at, step, row + at, w, bias, m, b);
        }
}

void FN(body)(ulong group, SRC x, SRC ew, SRC eb, SRC dw, SRC dw_bias, SRC pw, SRC bias, SRC add, DST y,
              const struct inverted_args *b, local float4 *scratch)
{
    const struct separable_args *a = &b->tail.shape;
    local float *wide = (local float *)scratch, *mid = wide + ROWS_HELD;
    const struct FN(coming) nothing = {0, 0};
    const int runs = (a->out[0] + b->rows - 1) / b->rows;
    const long n = (long)(group / runs);
    const int first = (int)(group % runs) * b->rows, past = min(first + b->rows, a->out[0]);
    SRC image = x + n * a->src_n;
    int next = max(first * a->stride[0] - a->pad[0], 0);
    for (int oh = first; oh < past; oh++) {
        const int need = min(oh * a->stride[0] - a->pad[0] + a->ker[0], a->in[0]);
        for (; next < need; next++)
            FN(expand)(wide, image, ew, eb, next, b);
        for (int ow = 0; ow < a->out[1]; ow += T) {
            FN(middle)(mid, wide, dw, dw_bias, oh, ow, a);
            const long at = ((long)oh * a->out[1] + ow) * V;
            for (int k = 0; k < a->k; k += KV * V)
                FN(product)(mid, pw + (long)k * a->c, bias, add + n * a->add_n, y + n * a->dst_n, k, at,
                            min(T, a->out[1] - ow), image, nothing, &b->tail);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC ew, ulong ew_off, SRC eb, ulong eb_off, SRC dw, ulong dw_off, SRC dw_bias,
                ulong dw_bias_off, SRC pw, ulong pw_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct inverted_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, ew + ew_off, eb + eb_off, dw + dw_off, dw_bias + dw_bias_off, pw + pw_off,
             bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
