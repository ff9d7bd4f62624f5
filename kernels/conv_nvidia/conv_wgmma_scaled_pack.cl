/* conv_wgmma_scaled_pack.cl: filters of convolutions as scaled halves in cores of Hopper's tensor cores, for conv_wgmma_scaled.cl.
 *
 *   dst[g][b][q][t][j][h][i][e] = scale[g][b] w[g*kg + BM*b + 8*j + i][16*q + 8*h + e][t]
 *
 * as halves, for blocks b of BM filters and chunks q of 16 channels; the scale is a power of two that brings the block's largest finite
 * filter to between 2^14 and 2^15. Behind all of them lies, as floats unscale[g][b], what undoes it. Zeros where there is no such filter.
 * Work-group: WG; PACK_SLABS taps of 16 channels of a block, whose largest filter each group finds. Local memory: WG floats.
 * Defines: WG (a power of two), BM (a multiple of 8, default 128). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_wgmma_scaled_pack_##x
#endif
#ifndef BM
#define BM 128
#endif
#include "conv/conv_weight.clh"
#include "conv_nvidia/conv_largest.clh"
#include "common/half_scale.clh"

void FN(body)(ulong group, SRC w, DST dst, const struct conv_scaled_pack_args *a, local float *scratch)
{
    const int slabs = a->c / 16 * a->taps, parts = (slabs + PACK_SLABS - 1) / PACK_SLABS, blocks = (a->kg + BM - 1) / BM;
    const int b = (int)(group / parts), first = (int)(group % parts) * PACK_SLABS, end = min(first + PACK_SLABS, slabs);
    const float2 scale = FN(scale_of)(FN(largest)(w, b, a->kg, a->c, a->taps, a->groups, a->w_k, scratch));
    global half *to = (global half *)dst + (long)b * slabs * (BM * 16);
    for (int i = first * (BM * 16) + LANE; i < end * (BM * 16); i += WG) {
        const int slab = i / (BM * 16), inside = i % (BM * 16), k = b % blocks * BM + inside / 128 * 8 + inside / 8 % 8;
        const int c = slab / a->taps * 16 + inside / 64 % 2 * 8 + inside % 8;
        const float v = k < a->kg ? FN(weight)(w, b / blocks, k, c, slab % a->taps, a->kg, a->taps, a->groups, a->w_k) : 0.0f;
        vstore_half_rte(v * scale.x, i, to);
    }
    if (first == 0 && LANE == 0)
        dst[(long)a->groups * blocks * slabs * (BM * 8) + b] = scale.y;
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_scaled_pack_args a)
{
    local float scratch[WG];
    FN(body)(GROUP, w + w_off, dst + dst_off, &a, scratch);
}
