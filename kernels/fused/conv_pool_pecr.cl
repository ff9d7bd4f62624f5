/* conv_pool_pecr.cl: 2-D convolution by lists of what is not zero in the windows of its pixels, epilogue and pooling in
 * registers.
 *
 *   y[n][k][ph][pw] = max or mean over i < PH, j < PW of m[n][k][ph * PH + i][pw * PW + j]
 *   m[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * NaN wins a maximum. A work-item has the PH * PW pixels of one window (conv/ecr.clh); what lies beyond the last whole
 * window is not computed.
 * Layouts: x, y, add NCHW with batch strides, add of the convolution's size; w packed by conv_pack.cl:
 * [groups][blocks][C/groups][R][S][4*FL*KC], zeros for missing filters.
 * Index map: group = block of filters of all groups * ceil(N * pixels of y / windows) + block of so many windows.
 * Work-group: WG. Local memory: ECR_SCRATCH, up to 21 KiB.
 * Defines: WG (a multiple of FL), FL, KC, PT = PH * PW (ecr.clh), PH, PW, AVG (conv_pool.clh), EPI_BIAS, EPI_ADD,
 * EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_pool_pecr_##x
#endif
#include "fused/conv_pool.clh"
#include "conv/ecr.clh"
#define WINDOWS (WG / FL) /* of a group */

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_ecr_args *args,
              local float4 *scratch)
{
    const struct conv_args *a = &args->conv;
    const int cg = a->c / a->groups, kg = a->k / a->groups, blocks = (kg + WIDTH - 1) / WIDTH;
    const long map = (long)a->out[1] * a->out[2], pooled_map = (long)args->pooled[0] * args->pooled[1];
    const long windows = pooled_map * a->n, tiles = (windows + WINDOWS - 1) / WINDOWS;
    const int block = (int)(group / tiles), g = block / blocks;
    const long first = (long)(group % tiles) * WINDOWS;
    float4 acc[PT][KC];
    {
        const long window = min(first + LANE / FL, windows - 1), n = window / pooled_map;
        const int of = (int)(window - n * pooled_map);
        long at[PT];
        int ih[PT], iw[PT];
#pragma unroll
        for (int t = 0; t < PT; t++) {
            ih[t] = (of / args->pooled[1] * PH + t / PW) * a->stride[1] - a->pad[1];
            iw[t] = (of % args->pooled[1] * PW + t % PW) * a->stride[2] - a->pad[2];
            at[t] = n * a->src_n + ((long)g * cg * a->in[1] + ih[t]) * a->in[2] + iw[t];
        }
        FN(sums)(acc, x, at, ih, iw, w + (long)block * cg * a->ker[1] * a->ker[2] * WIDTH, a, args->skip, scratch);
    }
    const long window = first + LANE / FL, n = window / pooled_map, at = window % pooled_map;
    const long corner = at / args->pooled[1] * PH * a->out[2] + at % args->pooled[1] * PW;
    if (window < windows) {
#pragma unroll
        for (int j = 0; j < KC; j++) {
            const int k0 = block % blocks * WIDTH + (j * FL + LANE % FL) * 4; /* within the group */
            float pooled[4] = {POOL_START, POOL_START, POOL_START, POOL_START};
#pragma unroll
            for (int t = 0; t < PT; t++) {
                float v[4];
                vstore4(acc[t][j], 0, v);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (k0 + i < kg) {
                        const int k = g * kg + k0 + i;
                        const long of = k * map + corner + t / PW * a->out[2] + t % PW;
                        const float m = EPILOGUE(v[i], bias, k, add, n * a->add_n + of, a);
                        pooled[i] = POOL(pooled[i], m);
                    }
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (k0 + i < kg)
                    y[n * a->dst_n + (g * kg + k0 + i) * pooled_map + at] = POOL_END(pooled[i]);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_ecr_args a)
{
    local float4 scratch[ECR_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
