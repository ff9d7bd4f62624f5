/* separable_fip.cl: depthwise convolution, activation and 1x1 convolution of maps with channels in blocks, one
 * depthwise filter a channel, the 1x1 convolution by the fast inner product, for CPU devices. The middle of a group's
 * tiles stays in a core's cache.
 *
 *   mid[c][p] = mid_act( sum_{r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *   y[n][k][p] = act( sum_c pw[k][c] mid[c][p] + bias[k] + add[n][k][p] )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; dw packed [ceil(C/V)][R][S][V] by conv_pack.cl; gains and
 * u, the filters, by conv_fip.cl. Lanes of y past K are written as zeros.
 * Index map: products of a tile with a block of filters are numbered; a group has the group-th part of them and makes
 * the middle of their tiles.
 * Work-group: WG = 1. Local memory: tiles, FIP_HELD floats (fip.clh).
 * Defines: V channels of a block, 16 or 8; T, KV (fip.clh), FIP_HELD; KH, KW, SW, EDGE (depthwise_tile.clh); MID_ACT
 * act_* (default act_none), DW_BIAS 0 or 1; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) separable_fip_##x
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
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#ifndef FIP_HELD
#define FIP_HELD 4096
#endif
#include "conv_cpu/fip.clh"
#define SCRATCH (FIP_HELD / 4)

/* A block of channels of a tile; returns its magnitudes, added up over pixels. x: the block's map. */
__attribute__((always_inline)) FV FN(middle)(int block, int row, int col, SRC x, SRC dw, SRC dw_bias, SRC gains,
                                             local float *mid, const struct FN(window) *g,
                                             const struct separable_args *a)
{
    const struct blocked_epilogue own = {.bias = DW_BIAS};
    const FV shift = FN(bias)(dw_bias, block * V, a->c, &own);
    const FV gain = LOADV(gains, block * V);
    FV acc[T], sum = 0.0f;
    FN(depthwise)(acc, x, dw, row, col, g);
#pragma unroll
    for (int t = 0; t < T; t++) {
        acc[t] = VECTOR_ACT(MID_ACT)(acc[t] + shift, a->mid_p0, a->mid_p1) * gain;
        SHAREV(acc[t], mid, t * V);
        sum += fabs(acc[t]);
    }
    return sum;
}

/* Scales a tile whose magnitudes add up to `sum`. */
void FN(scale)(local float *mid, FV sum, const struct fip_shape *a)
{
    const float scale = FN(scale_of)(mid, sum, a);
    FV sums[T];
#pragma unroll
    for (int t = 0; t < T; t++)
        sums[t] = 0.0f;
    for (int block = 0; block < a->c_blocks; block++)
#pragma unroll
        for (int t = 0; t < T; t++) {
            const FV x = LOADV(mid, (block * T + t) * V) * scale;
            SHAREV(x, mid, (block * T + t) * V);
            PAIRS_OF(x, sums[t]);
        }
    FN(heads)(mid, sums, a);
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC gains, SRC u, SRC bias, SRC add, DST y,
              const struct separable_fip_args *b, local float4 *scratch)
{
    const struct separable_args *m = &b->middle;
    const struct fip_shape *a = &b->shape;
    const struct FN(window) g = {{m->in[0], m->in[1]},
                                 {m->ker[0], m->ker[1]},
                                 {m->stride[0], m->stride[1]},
                                 {m->pad[0], m->pad[1]},
                                 {m->dil[0], m->dil[1]}};
    const long map = (long)m->in[0] * m->in[1] * V, taps = (long)m->ker[0] * m->ker[1] * V, size = FN(tile_floats)(a);
    const struct FN(part) part = FN(part_of)(group, a);
    local float *tiles = (local float *)scratch;
    for (int tile = part.first; tile < part.past; tile++) {
        const int row = FN(tile_row)(tile, a), col = FN(tile_column)(tile, a);
        local float *mid = tiles + (tile - part.first) * size;
        SRC image = x + tile / a->tiles * m->src_n;
        FV sum = 0.0f;
        for (int block = 0; block < a->c_blocks; block++)
            sum += FN(middle)(block, row, col, image + block * map, dw + block * taps, dw_bias, gains,
                              mid + block * (T * V), &g, m);
        FN(scale)(mid, sum, a);
    }
    FN(products)(&part, tiles, u, bias, add, y, a);
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC gains, ulong gains_off,
                SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct separable_fip_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, gains + gains_off, u + u_off, bias + bias_off,
             add + add_off, y + y_off, &a, scratch);
}
