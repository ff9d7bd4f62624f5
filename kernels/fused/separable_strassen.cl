/* separable_strassen.cl: depthwise convolution, activation and 1x1 convolution of maps with channels in blocks, one
 * depthwise filter a channel, the 1x1 convolution by Strassen's seven products of halves instead of eight, for CPU
 * devices. Right factors are made from the middle and stay in a core's cache.
 *
 *   mid[c][p] = mid_act( sum_{r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *   y[n][k][p] = act( sum_c pw[k][c] mid[c][p] + bias[k] + add[n][k][p] )
 *
 * Layouts: x, y, add [C/V][H][W][V] with batch strides, C a multiple of 2*V, K of 2*KV*V; dw packed [C/V][R][S][V] by
 * conv_pack.cl; gains and u, the left factors, by conv_strassen.cl. The width of y is a multiple of T.
 * Index map: products of a pair of tiles with a block of filters are numbered, pair * blocks + block; a group has the
 * group-th part of them and makes the right factors that they take.
 * Work-group: WG = 1. Local memory: right factors, FACTORS_HELD floats (strassen.clh).
 * Defines: V channels of a block, 16 or 8; T, KV, PAIRS (strassen.clh), FACTORS_HELD; KH, KW, SW, EDGE
 * (depthwise_tile.clh); MID_ACT act_* (default act_none), DW_BIAS 0 or 1; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "fused/separable_products_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) separable_strassen_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#ifndef T
#define T 7
#endif
#define DT T
#include "conv_cpu/depthwise_tile.clh"
#ifndef KV
#define KV 2
#endif
#ifndef PAIRS
#define PAIRS 16
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#ifndef FACTORS_HELD
#define FACTORS_HELD 4096
#endif
#define FACTORS local
#include "conv_cpu/strassen.clh"
#define SCRATCH (FACTORS_HELD / 4)

/* T pixels of the middle in a row of the block of channels whose map is x; zeros past the last row. Inlined by force:
 * elsewhere each sum would be stored with every tap. */
__attribute__((always_inline)) void FN(middle)(FV mid[T], SRC x, SRC dw, FV shift, int oh, int ow,
                                               const struct FN(window) *g, const struct separable_args *a)
{
    if (oh < a->out[0]) {
        FN(depthwise)(mid, x, dw, oh, ow, g);
#pragma unroll
        for (int t = 0; t < T; t++)
            mid[t] = VECTOR_ACT(MID_ACT)(mid[t] + shift, a->mid_p0, a->mid_p1);
    } else {
#pragma unroll
        for (int t = 0; t < T; t++)
            mid[t] = 0.0f;
    }
}

/* The right factors of a pair for a block of channels of both halves, scaled by `by`; or, without it, not scaled and
 * counted. x: the image; at: the pair's first pixel; s: the block's first factor of product 0. */
void FN(spread)(int block, int at, SRC x, SRC dw, SRC dw_bias, SRC gains, local float *s, long step, const float *by,
                float *largest, const struct separable_args *a)
{
    const struct FN(window) g = {{a->in[0], a->in[1]},
                                 {a->ker[0], a->ker[1]},
                                 {a->stride[0], a->stride[1]},
                                 {a->pad[0], a->pad[1]},
                                 {a->dil[0], a->dil[1]}};
    const int other = block + a->c / (2 * V); /* the same block of the lower half */
    const long map = (long)a->in[0] * a->in[1] * V, taps = (long)a->ker[0] * a->ker[1] * V;
    /* of the first tile; a second one may begin the next row */
    const int row = at / a->out[1], col = at - row * a->out[1];
    const bool ends = col + T == a->out[1];
    const int row2 = ends ? row + 1 : row, col2 = ends ? 0 : col + T;
    const FV gain = LOADV(gains, block * V), gain2 = LOADV(gains, other * V);
    FV upper = 0.0f, lower = 0.0f;
#if DW_BIAS
    upper = LOADV(dw_bias, block * V);
    lower = LOADV(dw_bias, other * V);
#endif
    FV x11[T], x12[T], x21[T], x22[T];
    FN(middle)(x11, x + block * map, dw + block * taps, upper, row, col, &g, a);
    FN(middle)(x12, x + block * map, dw + block * taps, upper, row2, col2, &g, a);
    FN(middle)(x21, x + other * map, dw + other * taps, lower, row, col, &g, a);
    FN(middle)(x22, x + other * map, dw + other * taps, lower, row2, col2, &g, a);
#pragma unroll
    for (int t = 0; t < T; t++) {
        struct FN(halves) first = {x11[t], x21[t]}, second = {x12[t], x22[t]};
        first = by ? FN(scaled)(first, gain, gain2, by[t]) : FN(counted)(first, gain, gain2, largest + t * V);
        second =
            by ? FN(scaled)(second, gain, gain2, by[t + T]) : FN(counted)(second, gain, gain2, largest + (t + T) * V);
        FN(factors)(first.upper, second.upper, first.lower, second.lower, s + t * V, step);
    }
}

/* The right factors of a group's pairs, and behind them what undoes the scale of their pixels. */
void FN(spread_all)(int first, int past, SRC x, SRC dw, SRC dw_bias, SRC gains, local float *s,
                    const struct separable_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const long right = FN(right_pair)(a), step = FN(right_step)(past - first, a);
    local float *backs = s + FN(right_backs)(past - first, a);
    float largest[PAIRS][LARGEST] __attribute__((aligned(64)));
    for (int pair = first; pair < past; pair++)
        FN(count_anew)(largest[pair - first]);
    for (int block = 0; block < a->c_blocks; block++)
        for (int pair = first; pair < past; pair++)
            FN(spread)(block, FN(pair_pixel)(pair, a), x + pair / a->pairs * b->middle.src_n, dw, dw_bias, gains,
                       s + (pair - first) * right + block * (T * V), step, 0, largest[pair - first], &b->middle);
    for (int pair = first; pair < past; pair++, s += right, backs += 2 * T) {
        float by[2 * T], back[2 * T];
        if (FN(settle)(largest[pair - first], by, back))
            for (int block = 0; block < a->c_blocks; block++)
                FN(spread)(block, FN(pair_pixel)(pair, a), x + pair / a->pairs * b->middle.src_n, dw, dw_bias, gains,
                           s + block * (T * V), step, by, 0, &b->middle);
        for (int t = 0; t < 2 * T; t++)
            backs[t] = back[t];
    }
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC gains, SRC u, SRC bias, SRC add, DST y,
              const struct separable_strassen_args *b, local float4 *scratch)
{
    const struct strassen_shape *a = &b->shape;
    const int k_blocks = a->k_blocks, all = b->all;
    const int low = (int)(group * all * k_blocks / b->groups), high = (int)((group + 1) * all * k_blocks / b->groups);
    const int first = low / k_blocks, past = (high + k_blocks - 1) / k_blocks;
    const long right = FN(right_pair)(a), step = FN(right_step)(past - first, a);
    local float *s = (local float *)scratch;
    local float *backs = s + FN(right_backs)(past - first, a);
    FN(spread_all)(first, past, x, dw, dw_bias, gains, s, b);
    for (int k = 0; k < k_blocks; k++) { /* pairs whose product with block k is numbered low to high - 1 */
        const int begin = (low - k + k_blocks - 1) / k_blocks, end = (high - k + k_blocks - 1) / k_blocks;
        if (begin < end)
            FN(products)(k, begin, end, s + (begin - first) * right, step, backs + (begin - first) * (2 * T), u, bias,
                         add, y, a);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC gains, ulong gains_off,
                SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct separable_strassen_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, gains + gains_off, u + u_off, bias + bias_off,
             add + add_off, y + y_off, &a, scratch);
}
