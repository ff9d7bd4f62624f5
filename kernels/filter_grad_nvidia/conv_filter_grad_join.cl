/* conv_filter_grad_join.cl: the parts of a gradient of filters by conv_filter_grad_scaled.cl, put together.
 *
 *   dw[g*K/g + k][c][t] = sum_s part[s][g][t][c][k],  s in ascending order
 *
 * Layouts: part dense, `pitch` elements between channels; dw [K][C/groups][H][W], filters `apart` elements apart.
 * Index map: group = (g * tiles of filters + tile) * tiles of channels + tile, tiles of JOIN_FILTERS filters by `each`
 * channels.
 * Work-group: WG items. Local memory: JOIN_FILTERS times JOIN_RESULTS + 1 floats. Defines: WG (a multiple of
 * JOIN_FILTERS). */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_join_##x
#endif
#define APART (JOIN_RESULTS + 1)

void FN(body)(ulong group, SRC part, DST dw, const struct filter_grad_join_args *a, local float4 *scratch)
{
    const int across = (a->c + a->each - 1) / a->each, down = (a->k + JOIN_FILTERS - 1) / JOIN_FILTERS;
    const uint rest = (uint)group / (uint)across, g = rest / (uint)down;
    const int c0 = (int)((uint)group - rest * (uint)across) * a->each, k0 = (int)(rest - g * (uint)down) * JOIN_FILTERS;
    const int channels = min(a->each, a->c - c0), filters = min(JOIN_FILTERS, a->k - k0), k = LANE % JOIN_FILTERS;
    const int results = channels * a->taps;
    const long size = (long)a->taps * a->c * a->pitch, apart = size * a->groups;
    local float *tile = (local float *)scratch;
    const global float *from = part + g * size + k0 + k;
    for (int i = LANE / JOIN_FILTERS; i < results; i += WG / JOIN_FILTERS)
        if (k < filters) {
            const int t = i / channels, c = i - t * channels;
            const global float *of = from + ((long)t * a->c + c0 + c) * a->pitch;
            float sum = of[0];
#pragma unroll 8
            for (int s = 1; s < a->parts; s++)
                sum += of[s * apart];
            tile[k * APART + c * a->taps + t] = sum;
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    DST to = dw + ((long)g * a->k + k0) * a->apart + (long)c0 * a->taps;
    for (int i = LANE; i < filters * results; i += WG)
        to[i / results * a->apart + i % results] = tile[i / results * APART + i % results];
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC part, ulong part_off, DST dw, ulong dw_off, const struct filter_grad_join_args a)
{
    local float4 scratch[(JOIN_FILTERS * APART + 3) / 4];
    FN(body)(GROUP, part + part_off, dw + dw_off, ARGS(a), scratch);
}
