/* conv_mma_pack.cl: filters of convolutions as fragments of NVIDIA's tensor cores, for conv_mma.cl.
 *
 *   dst[g][b][s][l][e] = w[g*kg + 16*b + l/4 + 8*(e%2)][c][t],  d = 8*s + l%4 + 4*(e/2) = t*padded + c
 *
 * for blocks b of 16 filters, steps s of 8 of depth, lanes l < 32, elements e < 4: what a work-item needs of a
 * fragment lies together. PRODUCTS 0: dst has halves, s counts 16 of depth, and
 *
 *   dst[g][b][s][l][e] = w[g*kg + 16*b + l/4 + 8*(e/2%2)][c][t],  d = 16*s + l%4 + 8*(e/4) + 4*(e%2),  e < 8
 *
 * Zeros where there is no such filter, channel or tap.
 * Work-group: WG elements of dst. Local memory: none. Defines: WG (any), PRODUCTS 0, 1 or 3 (packed_store.clh),
 * POINTS (conv_weight.clh). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_mma_pack_##x
#endif
#include "conv/conv_weight.clh"
#include "conv_nvidia/packed_store.clh"

void FN(body)(ulong group, SRC w, DST dst, const struct conv_mma_pack_args *a)
{
    const int blocks = (a->kg + 15) / 16;
    const long i = (long)group * WG + LANE, each = (long)a->depth * 16;
    if (i < each * blocks * a->groups) {
        const int b = (int)(i / each);
#if PRODUCTS == 0
        const int e = (int)(i % 8), lane = (int)(i / 8 % 32);
        const int k = b % blocks * 16 + lane / 4 + 8 * (e / 2 % 2);
        const int d = (int)(i % each / 256) * 16 + lane % 4 + 8 * (e / 4) + 4 * (e % 2);
#else
        const int e = (int)(i % 4), lane = (int)(i / 4 % 32);
        const int k = b % blocks * 16 + lane / 4 + 8 * (e % 2);
        const int d = (int)(i % each / 128) * 8 + lane % 4 + 4 * (e / 2);
#endif
        const int t = d / a->padded, c = d % a->padded;
        const float v = k < a->kg && c < a->c && t < a->taps
                            ? FN(weight)(w, b / blocks, k, c, t, a->kg, a->taps, a->groups, a->w_k)
                            : 0.0f;
        PACKED_STORE(v, i, dst);
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_mma_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
