/* conv_wgmma_pack.cl: filters of convolutions as cores of Hopper's tensor cores, for conv_wgmma.cl, whose PRODUCTS tell the form.
 *
 *   dst[g][b][s][j][h][i][e] = w[g*kg + BM*b + 8*j + i][c][t],  d = 8*s + 4*h + e = t*padded + c
 *
 * for blocks b of BM filters and slabs s of 8 of depth, with PRODUCTS 1: the nearest tf32 (the tensor core would cut it, and cut
 * values add up to a sum that is too small). With PRODUCTS 0 dst has halves, slabs have 16 of depth, and
 *
 *   dst[g][b][s][j][h][i][e] = w[g*kg + BM*b + 8*j + i][c][t],  d = 16*s + 8*h + e/2 + 4*(e%2),  e < 8
 *
 * With PRODUCTS 3 each slab of these is followed by one of what rounding left out, after filters were multiplied by a power of two, so that
 * the largest finite one of a block lies between 2^14 and 2^15 (conv_wgmma_split.clh); behind all of them lies, as floats
 * unscale[g][b], what undoes it.
 * Zeros where there is no such filter, channel or tap.
 * Work-group: WG elements of dst; with PRODUCTS 3 PACK_SLABS slabs of a block, whose largest filter each group finds. Local memory: none;
 * with PRODUCTS 3 WG floats. Defines: WG (any; with PRODUCTS 3 a power of two), BM (a multiple of 8, default 128), PRODUCTS 0, 1
 * (default) or 3, POINTS (conv_weight.clh). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_wgmma_pack_##x
#endif
#include "conv/conv_weight.clh"
#ifndef BM
#define BM 128
#endif
#ifndef PRODUCTS
#define PRODUCTS 1
#endif

/* Filter k of block b of all at depth d. */
float FN(filter)(SRC w, int b, int k, int d, const struct conv_mma_pack_args *a)
{
    const int blocks = (a->kg + BM - 1) / BM, t = d / a->padded, c = d % a->padded;
    k += b % blocks * BM;
    return k < a->kg && c < a->c && t < a->taps ? FN(weight)(w, b / blocks, k, c, t, a->kg, a->taps, a->groups, a->w_k)
                                                : 0.0f;
}

/* The nearest value of 11 bits, whose exponent is that of a float. */
float FN(nearest)(float v)
{
    return isnan(v) ? v : as_float((as_uint(v) + 0x1000u) & 0xffffe000u);
}

/* Where element i of a slab of halves comes from. */
float FN(in_slab)(SRC w, int b, int slab, int i, const struct conv_mma_pack_args *a)
{
    return FN(filter)(w, b, i / 128 * 8 + i / 8 % 8, slab * 16 + i / 64 % 2 * 8 + i % 8 / 2 + i % 2 * 4, a);
}

#if PRODUCTS == 3
#include "conv_nvidia/conv_largest.clh"
#include "common/half_scale.clh"

void FN(body)(ulong group, SRC w, DST dst, const struct conv_mma_pack_args *a, local float *scratch)
{
    const int slabs = a->depth / 16, parts = (slabs + PACK_SLABS - 1) / PACK_SLABS;
    const int b = (int)(group / parts), first = (int)(group % parts) * PACK_SLABS, end = min(first + PACK_SLABS, slabs);
    const float2 scale = FN(scale_of)(FN(largest)(w, b, a->kg, a->c, a->taps, a->groups, a->w_k, scratch));
    global half *to = (global half *)dst + (long)b * slabs * (BM * 32);
    for (int i = first * (BM * 16) + LANE; i < end * (BM * 16); i += WG) {
        const int slab = i / (BM * 16), inside = i % (BM * 16);
        const float v = FN(in_slab)(w, b, slab, inside, a) * scale.x, high = FN(nearest)(v);
        vstore_half_rte(high, (long)slab * (BM * 32) + inside, to);
        vstore_half_rte(isinf(v) ? 0.0f : v - high, (long)slab * (BM * 32) + BM * 16 + inside, to);
    }
    if (first == 0 && LANE == 0)
        dst[(long)a->groups * ((a->kg + BM - 1) / BM) * slabs * (BM * 16) + b] = scale.y;
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_mma_pack_args a)
{
    local float scratch[WG];
    FN(body)(GROUP, w + w_off, dst + dst_off, &a, scratch);
}
#else
void FN(body)(ulong group, SRC w, DST dst, const struct conv_mma_pack_args *a)
{
    const int blocks = (a->kg + BM - 1) / BM;
    const long i = (long)group * WG + LANE, each = (long)a->depth * BM;
    if (i < each * blocks * a->groups) {
        const int b = (int)(i / each), at = (int)(i % each);
#if PRODUCTS == 0
        vstore_half_rte(FN(in_slab)(w, b, at / (BM * 16), at % (BM * 16), a), i, (global half *)dst);
#else
        const int inside = at % (BM * 8);
        dst[i] = FN(nearest)(FN(filter)(w, b, inside / 64 * 8 + inside / 4 % 8, at / (BM * 8) * 8 + inside / 32 % 2 * 4 + inside % 4, a));
#endif
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_mma_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
#endif
