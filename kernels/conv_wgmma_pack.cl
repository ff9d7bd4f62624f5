/* conv_wgmma_pack.cl: filters of convolutions as cores of Hopper's tensor cores, for conv_wgmma.cl.
 *
 *   dst[g][b][s][j][h][i][e] = w[g*kg + BM*b + 8*j + i][c][t],  d = 8*s + 4*h + e = t*padded + c
 *
 * for blocks b of BM filters and slabs s of 8 of depth. NEAREST 1: the nearest tf32 (the tensor core would cut it, and cut
 * values add up to a sum that is too small). HALVES 1: dst has halves, slabs have 16 of depth, and
 *
 *   dst[g][b][s][j][h][i][e] = w[g*kg + BM*b + 8*j + i][c][t],  d = 16*s + 8*h + e/2 + 4*(e%2),  e < 8
 *
 * Zeros where there is no such filter, channel or tap.
 * Work-group: WG elements of dst. Local memory: none. Defines: WG (any), BM (a multiple of 8, default 128), NEAREST 0
 * (default) or 1, HALVES 0 (default) or 1, POINTS (conv_weight.clh). */
#include "clcnn.clh"
#include "args.h"
#ifndef FN
#define FN(x) conv_wgmma_pack_##x
#endif
#include "conv_weight.clh"
#include "half.clh"
#ifndef BM
#define BM 128
#endif
#ifndef NEAREST
#define NEAREST 0
#endif

void FN(body)(ulong group, SRC w, DST dst, const struct conv_mma_pack_args *a)
{
    const int blocks = (a->kg + BM - 1) / BM;
    const long i = (long)group * WG + LANE, each = (long)a->depth * BM;
    if (i < each * blocks * a->groups) {
        const int b = (int)(i / each);
#if HALVES
        const int inside = (int)(i % (BM * 16)), k = b % blocks * BM + inside / 128 * 8 + inside / 8 % 8;
        const int d = (int)(i % each / (BM * 16)) * 16 + inside / 64 % 2 * 8 + inside % 8 / 2 + inside % 2 * 4;
#else
        const int inside = (int)(i % (BM * 8)), k = b % blocks * BM + inside / 64 * 8 + inside / 4 % 8;
        const int d = (int)(i % each / (BM * 8)) * 8 + inside / 32 % 2 * 4 + inside % 4;
#endif
        const int t = d / a->padded, c = d % a->padded;
        const float v = k < a->kg && c < a->c && t < a->taps
                            ? FN(weight)(w, b / blocks, k, c, t, a->kg, a->taps, a->groups, a->w_k)
                            : 0.0f;
        PACKED_STORE(NEAREST && !isnan(v) ? as_float((as_uint(v) + 0x1000u) & 0xffffe000u) : v, i, dst);
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_mma_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
