/* separable_blocked.cl: depthwise convolution, activation and 1x1 convolution of maps with channels in blocks, one
 * depthwise filter a channel, for CPU devices. The middle stays in the first-level cache.
 *
 *   mid[c][t] = mid_act( sum_{r,s} x[n][c][oh*sh - ph + r*dh][(ow + t)*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *   y[n][k][oh][ow + t] = act( sum_c mid[c][t] * pw[k][c] + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; dw, pw packed (separable_tile.clh).
 * Tile: T pixels of an output row: all their middle channels, [ceil(C/V)][T][V], then for KV vectors of filters at a
 * time a matrix product with T * KV accumulators in registers.
 * Index map: group = n * runs + run; a work-item computes `tiles` tiles of one image, in rows from left to right.
 * Work-group: WG = 1. Local memory: mid, CHANNELS * T floats.
 * Defines: V channels of a block, 16 or 8; T, KV, CHANNELS, MID_ACT, DW_BIAS (separable_tile.clh); DT, KH, KW, SW
 * (depthwise_tile.clh); EPI_ACT act_* (blocked_store.clh). */
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
#include "fused/separable_tile.clh"
#define SCRATCH (CHANNELS * T / 4)

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
