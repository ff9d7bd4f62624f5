/* conv_ecr.cl: 2-D convolution by lists of what is not zero in the windows of output pixels.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s]
 *                          + bias[k] + add )
 *
 * A group lists the windows of P pixels side by side in the order of (n, oh, ow) once, and computes a block of filters
 * (ecr.clh).
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl: [groups][blocks][C/groups][R][S][4*FL*KC],
 * zeros for missing filters.
 * Index map: group = block of filters of all groups * ceil(N*OH*OW / P) + block of pixels.
 * Work-group: WG. Local memory: ECR_SCRATCH, up to 21 KiB.
 * Defines: WG (a multiple of FL), FL, KC, PT (ecr.clh), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_ecr_##x
#endif
#include "conv/ecr.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_ecr_args *args,
              local float4 *scratch)
{
    const struct conv_args *a = &args->conv;
    const int cg = a->c / a->groups, kg = a->k / a->groups, blocks = (kg + WIDTH - 1) / WIDTH;
    const long map = (long)a->out[1] * a->out[2], pixels = map * a->n, tiles = (pixels + P - 1) / P;
    const int block = (int)(group / tiles), g = block / blocks;
    const long first = (long)(group % tiles) * P + LANE / FL * PT;
    long at[PT];
    int ih[PT], iw[PT];
#pragma unroll
    for (int t = 0; t < PT; t++) {
        const long pixel = min(first + t, pixels - 1), n = pixel / map;
        const int of = (int)(pixel - n * map);
        ih[t] = of / a->out[2] * a->stride[1] - a->pad[1];
        iw[t] = of % a->out[2] * a->stride[2] - a->pad[2];
        at[t] = n * a->src_n + ((long)g * cg * a->in[1] + ih[t]) * a->in[2] + iw[t];
    }
    float4 acc[PT][KC];
    FN(sums)(acc, x, at, ih, iw, w + (long)block * cg * a->ker[1] * a->ker[2] * WIDTH, a, args->skip, scratch);
#pragma unroll
    for (int t = 0; t < PT; t++) {
        const long pixel = first + t, n = pixel / map;
        if (pixel < pixels) {
#pragma unroll
            for (int j = 0; j < KC; j++) {
                float v[4];
                vstore4(acc[t][j], 0, v);
                const int k0 = block % blocks * WIDTH + (j * FL + LANE % FL) * 4; /* within the group */
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (k0 + i < kg) {
                        const int k = g * kg + k0 + i;
                        const long to = k * map + pixel % map;
                        y[n * a->dst_n + to] = EPILOGUE(v[i], bias, k, add, n * a->add_n + to, a);
                    }
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_ecr_args a)
{
    local float4 scratch[ECR_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
