/* conv_wgmma_scaled_pack.cl: filters of convolutions as scaled halves in cores of Hopper's tensor cores, for
 * conv_wgmma_scaled.cl.
 *
 *   dst[g][b][q][t][j][h][i][e] = scale[k] w[k][c][t] / gain[g][b][c],  k = g*kg + BM*b + 8*j + i,  c = 16*q + 8*h + e
 *
 * as halves, for blocks b of BM filters and chunks q of 16 channels. scale[k] is a power of two that brings the
 * filter's largest finite weight to between 2^14 and 2^15. gain[g][b][c] is one that pixels are multiplied by, and
 * brings the largest of the block's scaled weights of the channel there; all of a chunk of pixels are 1 where none
 * differs much (FN(compare)).
 * Behind all of them lie, as floats, for each g, b and chunk of SCALED_CHANNELS channels their gains, 1 if one of them
 * is not 1, and three zeros; and behind those unscale[k] = 1 / scale[k], BM for each block. Zeros where there is no
 * such filter.
 * Work-group: WG; SCALED_PACK_SLABS taps of 16 channels of a block, those of one chunk, the largest weights of whose
 * filters are `sizes` (conv_filter_sizes.cl).
 * With ALL_FILTERS 1 gains are those of all filters of a conv group, the same for each of its blocks: those of
 * pixels that become halves once for all of them (conv_halves.cl).
 * Windows that are volumes have `planes` planes of taps, and channel p*padded + i of dst is channel i of the source in
 * plane p; those from channel c of a plane on are zeros.
 * With GAINS 0 all gains are 1: those of pixels that became halves before it was known who reads them.
 * With PAIRS 1 what a half leaves of its value lies behind the halves of each q and t, as another half.
 * Local memory: BM + 34 floats. Defines: WG (any), BM (a multiple of 8, default 128), ALL_FILTERS, PAIRS 0
 * (default) or 1, GAINS 0 or 1 (default). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_wgmma_scaled_pack_##x
#endif
#ifndef BM
#define BM 128
#endif
#ifndef ALL_FILTERS
#define ALL_FILTERS 0
#endif
#ifndef GAINS
#define GAINS 1
#endif
#ifndef PAIRS
#define PAIRS 0
#endif
#define PARTS (1 + PAIRS)
#include "conv/conv_weight.clh"
#include "common/half_scale.clh"
#include "conv_nvidia/conv_scales.clh"

/* Read whether there is such a filter and channel or not, from another one: loads behind a condition would wait for one
 * another. */
float FN(filter)(SRC w, int b, int k, int c, int t, const struct conv_scaled_pack_args *a)
{
    const int blocks = (a->kg + BM - 1) / BM, last = a->kg - 1;
    k += b % blocks * BM;
    const int plane = c / a->padded, of = c - plane * a->padded;
    const float v = FN(weight)(w, b / blocks, min(k, last), min(of, a->c - 1), plane * a->taps + t, a->kg,
                               a->planes * a->taps, a->groups, a->w_k);
    return k <= last && of < a->c ? v : 0.0f;
}

/* largest[i]: that of the block's scaled filters, of channel c0 + i, for i < count. `of`: those of its filters;
 * `sizes`: of all. */
void FN(largest_of_channels)(local float *largest, const local float *of, SRC sizes, SRC w, int b, int c0, int count,
                             const struct conv_scaled_pack_args *a)
{
#if ALL_FILTERS
    const int blocks = (a->kg + BM - 1) / BM, first = b / blocks * blocks, filters = a->kg;
    SRC size = sizes + (long)(b / blocks) * a->kg;
#else
    const int first = b, filters = BM;
    const local float *size = of;
#endif
    volatile local uint *bits = (volatile local uint *)largest; /* ordered as the numbers are */
    const int c = LANE % count, apart = WG / count; /* a work-item has one channel, and many filters at once */
    float most = 0.0f;
    for (int i = LANE; i < count; i += WG) /* channels that there are not are as large as all others are to be */
        bits[i] = (c0 + i) % a->padded < a->c ? 0 : as_uint(SCALE_TOP);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int t = 0; t < a->taps && LANE < apart * count; t++)
#pragma unroll 8
        for (int k = LANE / count; k < filters; k += apart)
            most = fmax(most, FN(finite)(FN(filter)(w, first, k, c0 + c, t, a) * FN(scale_of)(size[k]).x));
    atomic_max(bits + c, as_uint(most));
    barrier(CLK_LOCAL_MEM_FENCE);
}

void FN(body)(ulong group, SRC w, SRC sizes, DST dst, const struct conv_scaled_pack_args *a, local float *scratch)
{
    local float *of_filter = scratch, *of_channel = of_filter + BM, *differ = of_channel + SCALED_CHANNELS(1);
    const int channels = a->planes * a->padded, slabs = channels / 16 * a->taps,
              parts = slabs / SCALED_PACK_SLABS(a->taps), each = SCALED_CHANNELS(a->taps);
    const int b = (int)(group / parts), first = (int)(group % parts) * SCALED_PACK_SLABS(a->taps),
              end = first + SCALED_PACK_SLABS(a->taps);
    const int c0 = first / a->taps * 16, count = ((end - 1) / a->taps + 1) * 16 - c0;
    const long blocks = (long)a->groups * ((a->kg + BM - 1) / BM);
    FN(take_sizes)(of_filter, sizes, b, a->kg);
#if GAINS
    FN(largest_of_channels)(of_channel, of_filter, sizes, w, b, c0, count, a);
    FN(compare)(differ, of_channel, count / each, each);
#else
    for (int i = LANE; i < count / each; i += WG)
        differ[i] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    global half *to = (global half *)dst + (long)b * slabs * (BM * 16 * PARTS);
#pragma unroll 8
    for (int i = first * (BM * 16) + LANE; i < end * (BM * 16); i += WG) {
        const int slab = i / (BM * 16), inside = i % (BM * 16), k = inside / 128 * 8 + inside / 8 % 8;
        const int c = slab / a->taps * 16 + inside / 64 % 2 * 8 + inside % 8;
        const float by_channel = differ[(c - c0) / each] != 0.0f ? FN(scale_of)(of_channel[c - c0]).x : 1.0f;
        const float v = FN(filter)(w, b, k, c, slab % a->taps, a) * FN(scale_of)(of_filter[k]).x * by_channel;
        const long at = i + PAIRS * (long)slab * (BM * 16);
        vstore_half_rte(v, at, to);
#if PAIRS
        vstore_half_rte(v - vload_half(at, to), at + BM * 16, to);
#endif
    }
    DST gains = dst + blocks * slabs * (BM * 8 * PARTS) + (long)b * (channels / each) * (each + 4);
    for (int i = LANE; i < count; i += WG)
        if ((c0 + i) / 16 * a->taps >= first) { /* the channel's first tap is this group's */
            DST chunk = gains + (long)((c0 + i) / each) * (each + 4);
            const float other = differ[i / each];
            chunk[(c0 + i) % each] = other != 0.0f ? FN(scale_of)(of_channel[i]).y : 1.0f;
            if (i % each < 4)
                chunk[each + i % each] = i % each == 0 ? other : 0.0f;
        }
    DST unscale = dst + blocks * (slabs * (BM * 8 * PARTS) + channels / each * (each + 4)) + (long)b * BM;
    for (int k = LANE; first == 0 && k < BM; k += WG)
        unscale[k] = FN(scale_of)(of_filter[k]).y;
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC w, ulong w_off, SRC sizes, ulong sizes_off, DST dst, ulong dst_off,
                const struct conv_scaled_pack_args a)
{
    local float scratch[BM + SCALED_CHANNELS(1) + 2];
    FN(body)(GROUP, w + w_off, sizes + sizes_off, dst + dst_off, &a, scratch);
}
