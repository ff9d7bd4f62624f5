/* conv_depthwise_blocked.cl: depthwise 2-D convolution of maps with channels in blocks, MULT filters a channel, for CPU
 * devices.
 *
 *   y[n][k][oh][ow] = act( sum_{r,s} x[n][k/MULT][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][0][r][s]
 *                          + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides; w packed by conv_pack.cl: [ceil(K/V)][R][S][V], zeros
 * past K.
 * Lanes of y past K are written as zeros.
 * Index map: group = (n * blocks + block) * parts + part; a work-item computes `rows` output rows of one block of
 * filters, DT pixels at a time.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; MULT 1 (default), 2 or 4; DT, KH, KW, SW (depthwise_tile.clh); EPI_ACT act_*
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
#define FN(x) conv_depthwise_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#ifndef MULT
#define MULT 1
#endif
/* Each of V / MULT channels in the lanes of its filters. */
#if MULT == 2 && V == 16
#define DEPTHWISE_LOAD(p) (*(const global unaligned_float8 *)(p)).s0011223344556677
#elif MULT == 2
#define DEPTHWISE_LOAD(p) (*(const global unaligned_float4 *)(p)).s00112233
#elif MULT == 4 && V == 16
#define DEPTHWISE_LOAD(p) (*(const global unaligned_float4 *)(p)).s0000111122223333
#elif MULT == 4
#define DEPTHWISE_LOAD(p) vload2(0, p).s00001111
#endif
#include "conv_cpu/depthwise_tile.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct depthwise_args *a)
{
    const int blocks = (a->c + V - 1) / V, parts = (a->out[0] + a->rows - 1) / a->rows;
    const int first = (int)(group % parts) * a->rows, past = min(first + a->rows, a->out[0]);
    const int block = (int)(group / parts % blocks), k = block * V;
    const long n = (long)(group / parts / blocks);
    const struct FN(window) g = {{a->in[0], a->in[1]},
                                 {a->ker[0], a->ker[1]},
                                 {a->stride[0], a->stride[1]},
                                 {a->pad[0], a->pad[1]},
                                 {a->dil[0], a->dil[1]}};
    SRC xb = x + n * a->src_n + (long)(block / MULT) * a->in[0] * a->in[1] * V + block % MULT * (V / MULT);
    SRC taps = w + (long)block * a->ker[0] * a->ker[1] * V;
    SRC an = add + n * a->add_n;
    DST yn = y + n * a->dst_n;
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    const FV b = FN(bias)(bias, k, a->c, &epi);
    for (int oh = first; oh < past; oh++)
        for (int ow = 0; ow < a->out[1]; ow += DT) {
            FV acc[DT];
            FN(depthwise)(acc, xb, taps, oh, ow, &g);
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
