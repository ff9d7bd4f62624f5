/* separable_strassen.cl: depthwise convolution and activation of maps with channels in blocks, one filter a channel, whose results become
 * right factors of Strassen's products, for CPU devices: the 1x1 convolution that follows is conv_strassen.cl's.
 *
 *   mid[c][p] = mid_act( sum_{r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *
 * Layouts: x [C/V][H][W][V] with batch strides, C a multiple of 2*V; dw packed [C/V][R][S][V] by conv_pack.cl; s as `spread` of
 * conv_strassen.cl makes it of mid. The width of mid is a multiple of DT.
 * Index map: group = block of channels of a half * pairs of tiles of the step + pair: neighbours read what a core has written. Where
 * the products' work-items share the pairs, group = pair * blocks + block: what a core writes it reads itself.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile, a multiple of DT; DT, KH, KW, SW (depthwise_tile.clh); MID_ACT act_*
 * (default act_none), DW_BIAS 0 or 1. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "clcnn.clh"
#include "args.h"
#include "vec.clh"
#include "prefetch.clh"
#ifndef FN
#define FN(x) separable_strassen_##x
#endif
#include "activation_vec.clh"
#include "depthwise_tile.clh"
#ifndef T
#define T 14
#endif
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#include "strassen.clh"

/* DT pixels of the middle from `pixel` of the image on, of the block of channels whose map is x; zeros past the last pixel. */
void FN(middle)(FV mid[DT], SRC x, SRC dw, FV shift, int pixel, const struct FN(window) *g, const struct separable_args *a)
{
    if (pixel < a->out[0] * a->out[1]) {
        FN(depthwise)(mid, x, dw, pixel / a->out[1], pixel % a->out[1], g);
#pragma unroll
        for (int t = 0; t < DT; t++)
            mid[t] = VECTOR_ACT(MID_ACT)(mid[t] + shift, a->mid_p0, a->mid_p1);
    } else {
#pragma unroll
        for (int t = 0; t < DT; t++)
            mid[t] = 0.0f;
    }
}

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, DST s, const struct separable_strassen_args *b)
{
    const struct separable_args *a = &b->shape;
    const struct conv_strassen_args *q = &b->products;
    const struct FN(window) g = {{a->in[0], a->in[1]}, {a->ker[0], a->ker[1]}, {a->stride[0], a->stride[1]},
                                 {a->pad[0], a->pad[1]}, {a->dil[0], a->dil[1]}};
    const bool by_pairs = q->count > q->per_item; /* the products take pairs in chunks, this core the same ones */
    const int block = (int)(by_pairs ? group % q->c_blocks : group / q->count);
    const int in_slice = (int)(by_pairs ? group / q->c_blocks : group % q->count), pair = q->first + in_slice;
    const int at = pair % q->pairs * (2 * T), other = block + q->c_blocks; /* the same block of the lower half */
    const long map = (long)a->in[0] * a->in[1] * V, taps = (long)a->ker[0] * a->ker[1] * V, step = FN(right_step)(q);
    FV upper = 0.0f, lower = 0.0f;
#if DW_BIAS
    upper = LOADV(dw_bias, block * V);
    lower = LOADV(dw_bias, other * V);
#endif
    x += pair / q->pairs * a->src_n;
    s += in_slice * (long)q->c_blocks * (T * V) + block * (T * V);
    for (int t0 = 0; t0 < T; t0 += DT, s += DT * V) {
        FV x11[DT], x12[DT], x21[DT], x22[DT];
        for (int product = 0; product < 7; product++) /* stores that miss the caches take 8 cycles each */
            for (int t = 0; t < DT; t++)
                PREFETCH_TO_WRITE(s + product * step + t * V);
        FN(middle)(x11, x + block * map, dw + block * taps, upper, at + t0, &g, a);
        FN(middle)(x12, x + block * map, dw + block * taps, upper, at + t0 + T, &g, a);
        FN(middle)(x21, x + other * map, dw + other * taps, lower, at + t0, &g, a);
        FN(middle)(x22, x + other * map, dw + other * taps, lower, at + t0 + T, &g, a);
#pragma unroll
        for (int t = 0; t < DT; t++)
            FN(factors)(x11[t], x12[t], x21[t], x22[t], s + t * V, step);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, DST s, ulong s_off,
                const struct separable_strassen_args a)
{
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, s + s_off, &a);
}
