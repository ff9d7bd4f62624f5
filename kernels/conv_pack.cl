/* conv_pack.cl: filters of convolutions made contiguous per block, for the kernels that hold a block in
 * registers.
 *
 *   TAP_MAJOR 0: dst[b][c][t][j] = w[g*kg + i*block + j][c][t]
 *   TAP_MAJOR 1: dst[b][t][c][j] = the same
 *
 * with blocks per group nb = ceil(kg / block), b = g*nb + i, and zeros for filters beyond the group's kg.
 * Work-group: WG rows of `block` elements of dst, so that divisions are a row's. Local memory: none.
 * Defines: WG (any), TAP_MAJOR 0 or 1. */
#include "clcnn.clh"
#include "args.h"
#ifndef FN
#define FN(x) conv_pack_##x
#endif
#ifndef TAP_MAJOR
#define TAP_MAJOR 0
#endif

void FN(body)(ulong group, SRC w, DST dst, const struct conv_pack_args *a)
{
    const int blocks = (a->kg + a->block - 1) / a->block;
    const uint inside = (uint)a->c * (uint)a->taps;
    const ulong row = group * WG + LANE;
    if (row < (ulong)inside * (uint)(blocks * a->groups)) {
        const int b = (int)(row / inside);
        const int inner = (int)(row % inside);
#if TAP_MAJOR
        const int c = inner % a->c, t = inner / a->c;
#else
        const int c = inner / a->taps, t = inner % a->taps;
#endif
        const int first = b % blocks * a->block, left = a->kg - first;
        SRC src = w + (b / blocks * a->kg + first) * a->w_k + (long)c * a->taps + t;
        DST out = dst + row * (uint)a->block;
        for (int j = 0; j < a->block; j++)
            out[j] = j < left ? src[j * a->w_k] : 0.0f;
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
