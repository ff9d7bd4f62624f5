/* separable_amx.cl: depthwise convolution, activation and 1x1 convolution of maps with channels in blocks, one
 * depthwise filter a channel, the 1x1 convolution by tiles of bfloat16, for CPU devices. The middle is made as parts.
 *
 *   mid[c][p] = mid_act( sum_{r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * dw[c][0][r][s] + dw_bias[c] )
 *   y[n][k][p] = act( sum_c pw[k][c] mid[c][p] + bias[k] + add[n][k][p] )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; dw packed [ceil(C/V)][R][S][V] by conv_pack.cl; u, the
 * filters, by conv_amx.cl; s as amx_products.clh tells, with a position for each pixel.
 * Index map: as told there. Work-group: WG = 1. Local memory: none.
 * Defines: V 16; AMX (amx.clh); PARTS 3 (default); KH, KW, SW (depthwise_tile.clh); MID_ACT act_* (default act_none),
 * DW_BIAS 0 or 1; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) separable_amx_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/row_ends.clh"
#include "common/group_blocks.clh"
#include "common/prefetch.clh"
#ifndef DT
#define DT 7
#endif
#include "conv_cpu/depthwise_tile.clh"
#ifndef MID_ACT
#define MID_ACT act_none
#endif
#ifndef DW_BIAS
#define DW_BIAS 0
#endif
#include "conv_cpu/amx_places.clh"

/* The middle of DT pixels of a row, for the block of channels from c on; zeros where there is none. image: the item's
 * map. */
__attribute__((always_inline)) void FN(middle)(FV mid[DT], int c, int row, int col, SRC image, SRC dw, SRC dw_bias,
                                               const struct FN(window) *g, const struct separable_args *m)
{
    const struct blocked_epilogue own = {.bias = DW_BIAS};
    const long map = (long)m->in[0] * m->in[1] * V, taps = (long)m->ker[0] * m->ker[1] * V;
    const FV shift = FN(bias)(dw_bias, c, m->c, &own);
    FN(depthwise)(mid, image + c / V * map, dw + c / V * taps, row, col, g);
#pragma unroll
    for (int t = 0; t < DT; t++)
        mid[t] = VECTOR_ACT(MID_ACT)(mid[t] + shift, m->mid_p0, m->mid_p1);
}

/* Every position is a pixel of the middle, or past the last one. */
#undef SOURCE_PARAMS
#undef SOURCE
#define SOURCE_PARAMS SRC x, SRC dw, SRC dw_bias, const struct separable_args *m
#define SOURCE x, dw, dw_bias, m
void FN(split_run)(DST out, int c, int phase, long from, long past, const struct conv_amx_args *a, SOURCE_PARAMS)
{
    const struct FN(window) g = {{m->in[0], m->in[1]},
                                 {m->ker[0], m->ker[1]},
                                 {m->stride[0], m->stride[1]},
                                 {m->pad[0], m->pad[1]},
                                 {m->dil[0], m->dil[1]}};
    const int pixels = m->out[0] * m->out[1], width = m->out[1];
    const long all = min(past, (long)m->n * pixels);
    for (long position = from; position < all;) {
        const int n = (int)(position / pixels), pixel = (int)(position % pixels), col = pixel % width;
        const int count = (int)min(min(all - position, (long)DT), (long)(width - col));
        SRC image = x + n * m->src_n;
        FV low[DT], high[DT];
        FN(middle)(low, c, pixel / width, col, image, dw, dw_bias, &g, m);
        if (c + V < m->c)
            FN(middle)(high, c + V, pixel / width, col, image, dw, dw_bias, &g, m);
        for (int t = 0; t < count; t++, out += POSITION) {
            uint16 parts[PARTS];
            FN(parts)(low[t], c + V < m->c ? high[t] : (FV)0.0f, parts);
#pragma unroll
            for (int p = 0; p < PARTS; p++)
                STOREV(as_float16(parts[p]), out, p * V);
        }
        position += count;
    }
    for (long position = max(from, all); position < past; position++, out += POSITION)
        for (int p = 0; p < PARTS; p++)
            STOREV((FV)0.0f, out, p * V);
}

#include "conv_cpu/amx_products.clh"

void FN(body)(ulong group, SRC x, SRC dw, SRC dw_bias, SRC u, SRC bias, SRC add, DST s, DST y,
              const struct separable_amx_args *a)
{
    FN(amx)(group, u, s, &a->shape, x, dw, dw_bias, &a->middle, bias, add, y);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dw, ulong dw_off, SRC dw_bias, ulong dw_bias_off, SRC u, ulong u_off, SRC bias,
                ulong bias_off, SRC add, ulong add_off, DST s, ulong s_off, DST y, ulong y_off,
                const struct separable_amx_args a)
{
    FN(body)(GROUP, x + x_off, dw + dw_off, dw_bias + dw_bias_off, u + u_off, bias + bias_off, add + add_off, s + s_off,
             y + y_off, &a);
}
