/* conv_grouped.cl: 2-D convolution of maps with channels in blocks, groups of G channels and G filters that share a
 * block, for CPU devices.
 *
 *   y[n][k][oh][ow] = act( sum_{j,r,s} x[n][k/G*G + j][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][j][r][s] + bias[k]
 *   + add )
 *
 * Lanes are filters: channel j of each group is spread over the group's lanes, once for all taps of a row, so that no
 * product is wasted.
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; w packed by conv_pack.cl: [ceil(C/V)][R][S][G][V], zeros
 * past C. Lanes of y past C are written as zeros.
 * Index map: group = (n * blocks + block) * parts + part; a work-item computes `rows` output rows of one block, DT
 * pixels at a time.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; G 2, 4 or (of 16) 8; DT, KH, KW, SW (grouped_tile.clh); EPI_ACT act_*
 * (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/conv_cpu_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_grouped_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "conv_cpu/grouped_tile.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct depthwise_args *a)
{
    const int blocks = (a->c + V - 1) / V, parts = (a->out[0] + a->rows - 1) / a->rows;
    const int first = (int)(group % parts) * a->rows, past = min(first + a->rows, a->out[0]);
    const int block = (int)(group / parts % blocks), k = block * V;
    const long n = (long)(group / parts / blocks);
    SRC xb = x + n * a->src_n + (long)block * a->in[0] * a->in[1] * V;
    SRC taps = w + (long)block * a->ker[0] * a->ker[1] * (G * V);
    SRC an = add + n * a->add_n;
    DST yn = y + n * a->dst_n;
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    const FV b = FN(bias)(bias, k, a->c, &epi);
    for (int oh = first; oh < past; oh++)
        for (int ow = 0; ow < a->out[1]; ow += DT) {
            FV acc[DT];
            FN(grouped)(acc, xb, taps, oh, ow, a);
            const long i = (((long)block * a->out[0] + oh) * a->out[1] + ow) * V;
#pragma unroll
            for (int t = 0; t < DT; t++)
                if (ow + t < a->out[1])
                    FN(store)(acc[t], b, an, yn, i + t * V, a->c - k, &epi);
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct depthwise_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
