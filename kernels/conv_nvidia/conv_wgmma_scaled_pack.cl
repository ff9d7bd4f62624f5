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
 * FN(channels) finds each channel's largest scaled weight: largest[set][channel], for sets of filters that have gains
 * of their own, blocks of them. `sizes` are the largest weights of filters (conv_filter_sizes.cl).
 * Work-group: WG; one tap of 16 channels of a block; FN(channels): WG / FILTER_TEAM channels of a set.
 * With ALL_FILTERS 1 sets are all filters of a conv group, whose gains are the same for each of its blocks: those of
 * pixels that become halves once for all of them (conv_halves.cl).
 * Windows that are volumes have `planes` planes of taps, and channel p*padded + i of dst is channel i of the source in
 * plane p; those from channel c of a plane on are zeros. With STRIDED 1 planes are the phases of a strided window
 * (conv_wgmma_scaled.cl), of taps / wide x wide taps each, and those that a phase does not have are zeros.
 * With GAINS 0 all gains are 1: those of pixels that became halves before it was known who reads them.
 * With PAIRS 1 what a half leaves of its value lies behind the halves of each q and t, as another half.
 * Local memory: BM + 33 floats; FN(channels): WG floats. Defines: WG (any), BM (a multiple of 8, default 128),
 * ALL_FILTERS, PAIRS, STRIDED 0 (default) or 1, GAINS 0 or 1 (default). */
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
#ifndef STRIDED
#define STRIDED 0
#endif
#define PARTS (1 + PAIRS)
#include "conv/conv_weight.clh"
#include "common/half_scale.clh"
#include "conv_nvidia/conv_scales.clh"

/* Channel c of filter k of conv group g, read whether there are such or not, from another one: loads behind a condition
 * would wait for one another. */
float FN(filter)(SRC w, int g, int k, int c, int t, const struct conv_scaled_pack_args *a)
{
    const int plane = c / a->padded, of = c - plane * a->padded;
#if STRIDED
    const int down = plane / a->stride[1], right = plane - down * a->stride[1];
    const int i = SCALED_FIRST(down, a->pad[0], a->stride[0]) + t / a->wide * a->stride[0],
              j = SCALED_FIRST(right, a->pad[1], a->stride[1]) + t % a->wide * a->stride[1];
    const int tap = min(i, a->ker[0] - 1) * a->ker[1] + min(j, a->ker[1] - 1), taps = a->ker[0] * a->ker[1];
    const bool there = k < a->kg && of < a->c && i < a->ker[0] && j < a->ker[1];
#else
    const int tap = plane * a->taps + t, taps = a->planes * a->taps;
    const bool there = k < a->kg && of < a->c;
#endif
    const float v = FN(weight)(w, g, min(k, a->kg - 1), min(of, a->c - 1), tap, a->kg, taps, a->groups, a->w_k);
    return there ? v : 0.0f;
}

void FN(channels_body)(ulong group, SRC w, SRC sizes, DST largest, const struct conv_scaled_pack_args *a,
                       local float4 *scratch)
{
    local float *most = (local float *)scratch;
    const int channels = a->planes * a->padded, blocks = ALL_FILTERS ? 1 : (a->kg + BM - 1) / BM;
    const int item = (int)group * (WG / FILTER_TEAM) + LANE / FILTER_TEAM, team = LANE % FILTER_TEAM;
    const int set = item / channels, c = item - set * channels, g = set / blocks, first = (set - g * blocks) * BM;
    const bool there = g < a->groups;
    const int end = there ? (ALL_FILTERS ? a->kg : min(first + BM, a->kg)) : first;
    float v = 0.0f;
    for (int k = first + team; k < end; k += FILTER_TEAM) {
        const float scale = FN(scale_of)(sizes[(long)g * a->kg + k]).x;
#pragma unroll 9
        for (int t = 0; t < a->taps; t++)
            v = fmax(v, FN(finite)(FN(filter)(w, g, k, c, t, a) * scale));
    }
    most[LANE] = v;
    for (int s = FILTER_TEAM / 2; s > 0; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (team < s)
            most[LANE] = fmax(most[LANE], most[LANE + s]);
    }
    if (team == 0 && there) /* channels that there are not are as large as all others are to be */
        largest[item] = c % a->padded < a->c ? most[LANE] : SCALE_TOP;
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(channels)(SRC w, ulong w_off, SRC sizes, ulong sizes_off, DST largest, ulong largest_off,
                    const struct conv_scaled_pack_args a)
{
    local float4 scratch[WG / 4];
    FN(channels_body)(GROUP, w + w_off, sizes + sizes_off, largest + largest_off, &a, scratch);
}

void FN(body)(ulong group, SRC w, SRC sizes, SRC largest, DST dst, const struct conv_scaled_pack_args *a,
              local float4 *scratch)
{
    local float *of_filter = (local float *)scratch, *of_channel = of_filter + BM,
                *differ = of_channel + SCALED_CHANNELS(1);
    const int channels = a->planes * a->padded, slabs = channels / 16 * a->taps, each = SCALED_CHANNELS(a->taps);
    const int b = (int)(group / (uint)slabs), slab = (int)group - b * slabs, t = slab % a->taps;
    const int c0 = slab / a->taps * 16, chunk = c0 / each, blocks = (a->kg + BM - 1) / BM, g = b / blocks;
    FN(take_sizes)(of_filter, sizes, b, a->kg);
#if GAINS
    for (int i = LANE; i < each; i += WG)
        of_channel[i] = largest[(long)(ALL_FILTERS ? g : b) * channels + chunk * each + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    FN(compare)(differ, of_channel, 1, each);
    const float other = differ[0];
#else
    const float other = 0.0f;
#endif
    global half *to = (global half *)dst + ((long)b * slabs + slab) * (BM * 16 * PARTS);
#pragma unroll 8
    for (int i = LANE; i < BM * 16; i += WG) {
        const int k = i / 128 * 8 + i / 8 % 8, c = c0 + i / 64 % 2 * 8 + i % 8;
        const float by_channel = other != 0.0f ? FN(scale_of)(of_channel[c - chunk * each]).x : 1.0f;
        const float v =
            FN(filter)(w, g, (b - g * blocks) * BM + k, c, t, a) * FN(scale_of)(of_filter[k]).x * by_channel;
        vstore_half_rte(v, i, to);
#if PAIRS
        vstore_half_rte(v - vload_half(i, to), i + BM * 16, to);
#endif
    }
    const long all = (long)a->groups * blocks;
    DST gains = dst + all * slabs * (BM * 8 * PARTS) + ((long)b * (channels / each) + chunk) * (each + 4);
    for (int i = LANE; t == 0 && c0 % each == 0 && i < each + 4; i += WG) {
        const float gain = other != 0.0f && i < each ? FN(scale_of)(of_channel[i]).y : 1.0f;
        gains[i] = i < each ? gain : i == each ? other : 0.0f;
    }
    DST unscale = dst + all * (slabs * (BM * 8 * PARTS) + channels / each * (each + 4)) + (long)b * BM;
    for (int k = LANE; slab == 0 && k < BM; k += WG)
        unscale[k] = FN(scale_of)(of_filter[k]).y;
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC w, ulong w_off, SRC sizes, ulong sizes_off, SRC largest, ulong largest_off, DST dst, ulong dst_off,
                const struct conv_scaled_pack_args a)
{
    local float4 scratch[(BM + SCALED_CHANNELS(1) + 1 + 3) / 4];
    FN(body)(GROUP, w + w_off, sizes + sizes_off, largest + largest_off, dst + dst_off, &a, scratch);
}
