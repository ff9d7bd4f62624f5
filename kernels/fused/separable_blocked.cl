/* separable_blocked.cl: depthwise convolution, activation and 1x1 convolution of maps with channels in blocks, one
 * depthwise filter a channel, for CPU devices. The middle stays in the first-level cache.
 *
 *   mid[c][t] = mid_act( sum_{r,s} x[n][c][oh*sh - ph + r*dh][(ow + t)*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *   y[n][k][oh][ow + t] = act( sum_c mid[c][t] * pw[k][c] + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; dw packed [ceil(C/V)][R][S][V], pw packed
 * [ceil(K/(KV*V))][C][KV*V], both by conv_pack.cl with zeros past the last filter. Lanes of y past K are written as
 * zeros.
 * Tile: T pixels of an output row: all their middle channels, [ceil(C/V)][T][V], then for KV vectors of filters at a
 * time a matrix product with T * KV accumulators in registers.
 * Index map: group = n * runs + run; a work-item computes `tiles` tiles of one image, in rows from left to right.
 * Work-group: WG = 1. Local memory: mid, CHANNELS * T floats.
 * Defines: V channels of a block, 16 or 8; T pixels (a multiple of DT; default 14), KV vectors (default 2), CHANNELS
 * the most channels (a multiple of 16; default 512); DT, KH, KW, SW (depthwise_tile.clh); MID_ACT act_* (default
 * act_none), DW_BIAS 0 or 1; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) separable_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "conv_cpu/depthwise_tile.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef CHANNELS
#define CHANNELS 512
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#define AHEAD 64 /* channels, whose weights are on their way: the first tile of a core finds none in its cache */
#define SOON_OF(v) PREFETCH(w + (AHEAD * KV + (v)) * V)
#define NONE_SOON(v)
#define SCRATCH (CHANNELS * T / 4)

/* The middle of one tile. */
void FN(middle)(local float *mid, SRC x, SRC dw, SRC dw_bias, int oh, int ow, const struct separable_args *a)
{
    const struct FN(window) g = {{a->in[0], a->in[1]},
                                 {a->ker[0], a->ker[1]},
                                 {a->stride[0], a->stride[1]},
                                 {a->pad[0], a->pad[1]},
                                 {a->dil[0], a->dil[1]}};
    const long map = (long)a->in[0] * a->in[1] * V, taps = a->ker[0] * a->ker[1] * V;
    const float low = a->mid_p0, high = a->mid_p1;
    const struct blocked_epilogue own = {.bias = DW_BIAS};
    for (int c = 0; c < a->c; c += V, x += map, dw += taps) {
        const FV shift = FN(bias)(dw_bias, c, a->c, &own);
        for (int t0 = 0; t0 < T; t0 += DT, mid += DT * V) {
            FV acc[DT];
            FN(depthwise)(acc, x, dw, oh, ow + t0, &g);
#pragma unroll
            for (int t = 0; t < DT; t++)
                SHAREV(VECTOR_ACT(MID_ACT)(acc[t] + shift, low, high), mid, t * V);
        }
    }
}

/* Lines of the input that tile i is the first to read, which the product of the tile before asks for: each block of
 * channels is a stream of its own. With a stride of 1 asking costs what it saves. `at`: of the first one that is due
 * with filter k, in a map; count: lines. */
struct FN(coming) {
    long at;
    int count;
};
struct FN(coming) FN(coming_of)(int i, int across, int k, const struct separable_args *a)
{
#if SW > 1
    const int row = i / across * a->stride[0] - a->pad[0] + a->ker[0] - a->stride[0], width = T * a->stride[1];
    const int parts = (a->k + KV * V - 1) / (KV * V), count = (width * a->stride[0] + parts - 1) / parts;
    const int first = k / (KV * V) * count;
    return (struct FN(coming)){
        ((long)(max(row, 0) + first / width) * a->in[1] + i % across * width + first % width) * V, count};
#else
    return (struct FN(coming)){0, 0};
#endif
}

/* KV vectors of filters from k on; y, add: the image, at: element of the tile's first pixel in a block; x: the image's
 * input. */
void FN(product)(const local float *mid, SRC w, SRC bias, SRC add, DST y, int k, long at, int pixels, SRC x,
                 struct FN(coming) coming, const struct separable_blocked_args *b)
{
    const struct separable_args *a = &b->shape;
    const long map = (long)a->out[0] * a->out[1] * V;
    for (int v = 0; v < KV && k + v * V < a->k; v++)
        for (int t = 0; t < pixels; t++)
            PREFETCH_TO_WRITE(y + (k / V + v) * map + at + t * V);
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = 0.0f;
    x += coming.at;
    for (int c = 0; c < a->c; c += V, mid += T * V) {
        const int lanes = min(V, a->c - c);
#if SW > 1
        for (int j = 0; j < coming.count; j++)
            PREFETCH(x + j * V);
        x += (long)a->in[0] * a->in[1] * V;
#endif
#if V == 8
        if (lanes == V) {
            UNROLL_CHANNELS for (int j = 0; j < V; j++, w += KV * V)
            {
                MULTIPLY_CHANNEL(mid, V, j, w, 0, T, NONE_SOON);
            }
            continue;
        }
#endif
#pragma unroll 1
        for (int j = 0; j < lanes; j++, w += KV * V) {
            MULTIPLY_CHANNEL(mid, V, j, w, 0, T, SOON_OF);
        }
    }
    const struct blocked_epilogue epi = b->epi; /* a copy: stores of y cannot change it */
    if (pixels == T && k + KV * V <= a->k) {    /* nearly all tiles: nothing to ask for each pixel */
#pragma unroll
        for (int v = 0; v < KV; v++) {
            const FV shift = FN(bias)(bias, k + v * V, a->k, &epi);
#pragma unroll
            for (int t = 0; t < T; t++)
                FN(store)(acc[t][v], shift, add, y, (k / V + v) * map + at + t * V, V, &epi);
        }
        return;
    }
#pragma unroll
    for (int v = 0; v < KV; v++)
        if (k + v * V < a->k) {
            const long i = (k / V + v) * map + at;
            const FV shift = FN(bias)(bias, k + v * V, a->k, &epi);
#pragma unroll
            for (int t = 0; t < T; t++)
                if (t < pixels)
                    FN(store)(acc[t][v], shift, add, y, i + t * V, a->k - k - v * V, &epi);
        }
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC pw, SRC bias, SRC add, DST y,
              const struct separable_blocked_args *b, local float4 *scratch)
{
    const struct separable_args *a = &b->shape;
    local float *mid = (local float *)scratch;
    const int across = (a->out[1] + T - 1) / T, all = across * a->out[0];
    const int runs = (all + b->tiles - 1) / b->tiles;
    const int first = (int)(group % runs) * b->tiles, past = min(first + b->tiles, all);
    const long n = (long)(group / runs);
    for (int i = first; i < past; i++) {
        const int oh = i / across, ow = i % across * T;
        SRC image = x + n * a->src_n;
        FN(middle)(mid, image, dw, dw_bias, oh, ow, a);
        const long at = ((long)oh * a->out[1] + ow) * V;
        for (int k = 0; k < a->k; k += KV * V)
            FN(product)(mid, pw + (long)k * a->c, bias, add + n * a->add_n, y + n * a->dst_n, k, at,
                        min(T, a->out[1] - ow), image, FN(coming_of)(i + 1, across, k, a), b);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC pw, ulong pw_off,
                SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct separable_blocked_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, pw + pw_off, bias + bias_off, add + add_off,
             y + y_off, &a, scratch);
}
