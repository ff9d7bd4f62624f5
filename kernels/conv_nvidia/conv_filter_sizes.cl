/* conv_filter_sizes.cl: the largest finite weight of each filter, which conv_wgmma_pack.cl and
 * conv_wgmma_scaled_pack.cl scale filters by.
 *
 *   dst[g*kg + k] = max over c, t of |w[g*kg + k][c][t]|, of those that are finite numbers
 *
 * Work-group: WG / TEAM filters. Local memory: WG floats.
 * Defines: WG (a multiple of TEAM), POINTS (conv_weight.clh). */
#include "common/clcnn.clh"
#include "conv_nvidia/conv_nvidia_args.h"
#ifndef FN
#define FN(x) conv_filter_sizes_##x
#endif
#include "conv/conv_weight.clh"

void FN(body)(ulong group, SRC w, DST dst, const struct conv_scaled_pack_args *a, local float4 *scratch)
{
    local float *buf = (local float *)scratch;
    const long filter = (long)group * (WG / FILTER_TEAM) + LANE / FILTER_TEAM;
    const int g = (int)(filter / a->kg), k = (int)(filter - (long)g * a->kg), each = a->c * a->taps;
    const bool present = g < a->groups;
    float most = 0.0f;
#pragma unroll 8
    for (int i = LANE % FILTER_TEAM; i < (present ? each : 0); i += FILTER_TEAM) {
#if WINOGRAD_POINTS
        const int c = i / a->taps, t = i - c * a->taps;
#else
        const int c = 0, t = i; /* weights of a filter are neighbours */
#endif
        const float v = fabs(FN(weight)(w, g, k, c, t, a->kg, a->taps, a->groups, a->w_k));
        most = v < INFINITY ? fmax(most, v) : most;
    }
    buf[LANE] = most;
    for (int s = FILTER_TEAM / 2; s > 0; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (LANE % FILTER_TEAM < s)
            buf[LANE] = fmax(buf[LANE], buf[LANE + s]);
    }
    if (LANE % FILTER_TEAM == 0 && present)
        dst[filter] = buf[LANE];
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC w, ulong w_off, DST dst, ulong dst_off, const struct conv_scaled_pack_args a)
{
    local float4 scratch[WG / 4];
    FN(body)(GROUP, w + w_off, dst + dst_off, &a, scratch);
}
