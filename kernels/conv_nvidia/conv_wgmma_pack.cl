/* conv_wgmma_pack.cl: filters of convolutions as cores of Hopper's tensor cores, for conv_wgmma.cl, whose PRODUCTS tell
 * the form.
 *
 *   dst[g][b][s][j][h][i][e] = w[g*kg + BM*b + 8*j + i][c][t],  d = 8*s + 4*h + e = t*padded + c
 *
 * for blocks b of BM filters and slabs s of 8 of depth, kept as packed_store.clh says. With PRODUCTS 0 dst has halves,
 * slabs have 16 of depth, and
 *
 *   dst[g][b][s][j][h][i][e] = w[g*kg + BM*b + 8*j + i][c][t],  d = 16*s + 8*h + e/2 + 4*(e%2),  e < 8
 *
 * With PRODUCTS 3 each slab of these is followed by one of what rounding left out, and by DEPTH_GAINS floats: one a
 * depth, that pixels are to be multiplied by, 1 if one of them is not 1, and zeros. Before, each filter was multiplied
 * by a power of two that brings its largest finite weight to between 2^14 and 2^15, and then each depth of the block by
 * one that does so for its largest, which pixels undo (conv_wgmma_split.clh), unless all of the slab's are near
 * (FN(compare)). Behind all of them lie, as floats unscale[g][b][k], powers of two that sums are to be multiplied by,
 * as if the largest weight were between 1 and 2.
 * Zeros where there is no such filter, channel or tap.
 * Work-group: WG elements of dst; with PRODUCTS 3 PACK_SLABS slabs of a block, the largest weights of whose filters
 * are `sizes` (conv_filter_sizes.cl).
 * Local memory: none; with PRODUCTS 3 BM + PACK_SLABS * 17 floats.
 * Defines: WG (any), BM (a multiple of 8, default 128), PRODUCTS 0, 1 (default) or 3,
 * POINTS (conv_weight.clh). */
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
#include "conv_nvidia/packed_store.clh"

int FN(is_depth)(int d, const struct conv_mma_pack_args *a)
{
    return (d % a->padded < a->c) & (d / a->padded < a->taps);
}

/* Filter k of block b of all at depth d; read whether there is one or not, from another place: loads behind a condition
 * would wait for one another. */
float FN(filter)(SRC w, int b, int k, int d, const struct conv_mma_pack_args *a)
{
    const int blocks = (a->kg + BM - 1) / BM, t = d / a->padded, c = d % a->padded;
    k += b % blocks * BM;
    const float v = FN(weight)(w, b / blocks, min(k, a->kg - 1), min(c, a->c - 1), min(t, a->taps - 1), a->kg, a->taps,
                               a->groups, a->w_k);
    return (k < a->kg) & FN(is_depth)(d, a) ? v : 0.0f;
}

/* Which filter of the block and depth of the slab element i of a slab of halves belongs to, and the weight. */
int FN(k_in_slab)(int i)
{
    return i / 128 * 8 + i / 8 % 8;
}

int FN(d_in_slab)(int i)
{
    return i / 64 % 2 * 8 + i % 8 / 2 + i % 2 * 4;
}

float FN(in_slab)(SRC w, int b, int slab, int i, const struct conv_mma_pack_args *a)
{
    return FN(filter)(w, b, FN(k_in_slab)(i), slab * 16 + FN(d_in_slab)(i), a);
}

#if PRODUCTS == 3
#include "common/half_scale.clh"
#include "conv_nvidia/conv_scales.clh"
#define SLAB_FLOATS (BM * 16 + DEPTH_GAINS) /* both parts of its filters, and what pixels take */

/* largest[i]: that of the block's scaled filters at depth d0 + i, for i < count. `of`: those of filters. */
void FN(largest_of_depths)(local float *largest, const local float *of, SRC w, int b, int d0, int count,
                           const struct conv_mma_pack_args *a)
{
    volatile local uint *bits = (volatile local uint *)largest; /* ordered as the numbers are */
    const int d = LANE % count, apart = WG / count; /* a work-item has one depth, and many filters at once */
    float most = 0.0f;
    for (int i = LANE; i < count; i += WG) /* depths that there are not are as large as all others are to be */
        bits[i] = FN(is_depth)(d0 + i, a) ? 0 : as_uint(SCALE_TOP);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 8
    for (int k = LANE / count; k < BM; k += apart)
        most = fmax(most, FN(finite)(FN(filter)(w, b, k, d0 + d, a) * FN(scale_of)(of[k]).x));
    atomic_max(bits + d, as_uint(most));
    barrier(CLK_LOCAL_MEM_FENCE);
}

void FN(body)(ulong group, SRC w, SRC sizes, DST dst, const struct conv_mma_pack_args *a, local float4 *scratch)
{
    local float *of_filter = (local float *)scratch, *of_depth = of_filter + BM, *differ = of_depth + PACK_SLABS * 16;
    const int slabs = a->depth / 16, parts = (slabs + PACK_SLABS - 1) / PACK_SLABS;
    const int b = (int)(group / parts), first = (int)(group % parts) * PACK_SLABS,
              count = min(PACK_SLABS, slabs - first);
    FN(take_sizes)(of_filter, sizes, b, a->kg);
    FN(largest_of_depths)(of_depth, of_filter, w, b, first * 16, count * 16, a);
    FN(compare)(differ, of_depth, count, 16);
    DST to = dst + ((long)b * slabs + first) * SLAB_FLOATS;
#pragma unroll 4
    for (int i = LANE; i < count * (BM * 16); i += WG) {
        const int slab = i / (BM * 16), inside = i % (BM * 16);
        const float by_filter = FN(scale_of)(of_filter[FN(k_in_slab)(inside)]).x;
        const float by_depth =
            differ[slab] != 0.0f ? FN(scale_of)(of_depth[slab * 16 + FN(d_in_slab)(inside)]).x : 1.0f;
        const float v = FN(in_slab)(w, b, first + slab, inside, a) * by_filter * by_depth, high = FN(nearest)(v);
        global half *halves = (global half *)(to + (long)slab * SLAB_FLOATS) + inside;
        vstore_half_rte(high, 0, halves);
        vstore_half_rte(isinf(v) ? 0.0f : v - high, BM * 16, halves);
    }
    for (int i = LANE; i < count * DEPTH_GAINS; i += WG) {
        const int slab = i / DEPTH_GAINS, d = i % DEPTH_GAINS;
        const float gain = d < 16 && differ[slab] != 0.0f ? FN(scale_of)(of_depth[slab * 16 + d]).y : 1.0f;
        to[(long)slab * SLAB_FLOATS + BM * 16 + d] = d < 16 ? gain : d == 16 ? differ[slab] : 0.0f;
    }
    DST unscale = dst + (long)a->groups * ((a->kg + BM - 1) / BM) * slabs * SLAB_FLOATS + (long)b * BM;
    for (int k = LANE; first == 0 && k < BM; k += WG)
        unscale[k] = FN(scale_of)(of_filter[k]).y / SCALE_UNDO;
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC w, ulong w_off, SRC sizes, ulong sizes_off, DST dst, ulong dst_off,
                const struct conv_mma_pack_args a)
{
    local float4 scratch[(BM + PACK_SLABS * 17 + 3) / 4];
    FN(body)(GROUP, w + w_off, sizes + sizes_off, dst + dst_off, &a, scratch);
}
#else
void FN(body)(ulong group, SRC w, DST dst, const struct conv_mma_pack_args *a)
{
    const int blocks = (a->kg + BM - 1) / BM;
    const long i = (long)group * WG + LANE, each = (long)a->depth * BM;
    if (i < each * blocks * a->groups) {
        const int b = (int)(i / each), at = (int)(i % each);
#if PRODUCTS == 0
        PACKED_STORE(FN(in_slab)(w, b, at / (BM * 16), at % (BM * 16), a), i, dst);
#else
        const int inside = at % (BM * 8);
        PACKED_STORE(
            FN(filter)(w, b, inside / 64 * 8 + inside / 4 % 8, at / (BM * 8) * 8 + inside / 32 % 2 * 4 + inside % 4, a),
            i, dst);
#endif
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_mma_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}
#endif
