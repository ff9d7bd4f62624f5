/* conv_filter_grad_depthwise.cl: the gradient of filters that have one channel each, for GPUs.
 *
 *   parts[part][k][r][s] = sum over outputs (n, i, j) of a chunk of
 *                          dy[n][k][i][j] * x[n][k/m][i*stride - pad + r*dil][j*stride - pad + s*dil], m = K/C
 *
 * conv_sum_parts.cl adds the chunks up. A work-item has sums for all taps, of which the group's are added up in pairs.
 * Layouts: x, dy NCHW with batch strides; parts dense.
 * Index map: group = part * K + k. Work-group: WG, a power of two. Local memory: WG floats.
 * Defines: WG, KH, KW (the window). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_depthwise_##x
#endif
#ifndef KH
#define KH 3
#endif
#ifndef KW
#define KW 3
#endif
#define SCRATCH ((WG + 3) / 4)

/* Sum over all work-items, for the first one. */
float FN(together)(float mine, local float *buf)
{
    buf[LANE] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = WG / 2; s > 0; s >>= 1) {
        if (LANE < s)
            buf[LANE] += buf[LANE + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float all = buf[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return all;
}

void FN(body)(ulong group, SRC x, SRC dy, DST parts, const struct filter_grad_parts_args *f, local float4 *scratch)
{
    const struct conv_args *a = &f->conv;
    const int part = (int)(group / (uint)a->k), k = (int)(group - (ulong)part * (uint)a->k);
    const uint map = (uint)(a->out[1] * a->out[2]);
    const long past = min((part + 1) * f->chunk, (long)a->n * map);
    SRC xc = x + (long)(k / (a->k / a->c)) * a->in[1] * a->in[2];
    SRC yk = dy + (long)k * map;
    float sum[KH * KW];
#pragma unroll
    for (int t = 0; t < KH * KW; t++)
        sum[t] = 0.0f;
    for (long o = part * f->chunk + LANE; o < past; o += WG) {
        const uint n = (uint)(o / map), at = (uint)(o - (long)n * map), row = at / (uint)a->out[2];
        const int top = (int)row * a->stride[1] - a->pad[1];
        const int left = (int)(at - row * (uint)a->out[2]) * a->stride[2] - a->pad[2];
        const float slope = yk[n * a->dst_n + at];
        SRC from = xc + n * a->src_n + (long)top * a->in[2] + left;
#pragma unroll
        for (int r = 0; r < KH; r++)
#pragma unroll
            for (int s = 0; s < KW; s++)
                if ((uint)(top + r * a->dil[1]) < (uint)a->in[1] && (uint)(left + s * a->dil[2]) < (uint)a->in[2])
                    sum[r * KW + s] = fma(slope, from[(long)r * a->dil[1] * a->in[2] + s * a->dil[2]], sum[r * KW + s]);
    }
#pragma unroll
    for (int t = 0; t < KH * KW; t++) {
        const float all = FN(together)(sum[t], (local float *)scratch);
        if (LANE == 0)
            parts[((long)part * a->k + k) * (KH * KW) + t] = all;
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST parts, ulong parts_off,
                const struct filter_grad_parts_args f)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dy + dy_off, parts + parts_off, &f, scratch);
}
