/* conv_filter_grad_cores.cl: dy in the order in which conv_filter_grad_wgmma.cl takes it: cores of 8 filters by 4
 * depths, chunk by chunk of ROWS_DEPTH of depth, for blocks of BM filters.
 *
 *   y[g][b][q][s][j][h][i][e] = dy[n][g*kg + BM*b + 8*j + i][o],  pixel o of image n at depth ROWS_DEPTH*q + 8*s + 4*h
 *   + e
 *
 * The depth counts pixels of segments of 2^wide of a row, `across` of them a row. Zeros behind rows, images and
 * filters.
 * Layouts: dy NCHW with a batch stride.
 * Index map: group = (g * blocks + b) * chunks + q.
 * Work-group: WG items. Local memory: none. Defines: WG (any), BM (a multiple of 8, default 64). */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_cores_##x
#endif
#ifndef BM
#define BM 64
#endif
#define QUADS (BM * ROWS_DEPTH / 4) /* of a chunk */

/* Up to four floats, of which there are `left`. */
float4 FN(some)(const global float *from, int left)
{
    if (left >= 4 && ((ulong)from & 15) == 0)
        return *(const global float4 *)from;
    return (float4)(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f,
                    left > 3 ? from[3] : 0.0f);
}

void FN(body)(ulong group, SRC dy, DST y, const struct filter_grad_cores_args *a)
{
    const uint block = (uint)group / (uint)a->chunks, chunk = (uint)group - block * (uint)a->chunks;
    const int blocks = (a->kg + BM - 1) / BM, g = (int)block / blocks, first = ((int)block - g * blocks) * BM;
#pragma unroll 4
    for (int i = LANE; i < QUADS; i += WG) {
        const int k = first + i / 16 % (BM / 8) * 8 + i % 8, depth = i / (BM * 2) * 8 + i / 8 % 2 * 4;
        const uint segment = chunk * (ROWS_DEPTH >> a->wide) + (uint)(depth >> a->wide),
                   row = segment / (uint)a->across;
        const int n = (int)(row / (uint)a->high), h = (int)row - n * a->high;
        const int w = ((int)(segment - row * (uint)a->across) << a->wide) + (depth & ((1 << a->wide) - 1));
        const global float *from = dy + n * a->image + ((long)(g * a->kg + k) * a->high + h) * a->width + w;
        vstore4(FN(some)(from, n < a->n && k < a->kg ? a->width - w : 0), (size_t)group * QUADS + i, y);
    }
}

KERNEL FN(main)(SRC dy, ulong dy_off, DST y, ulong y_off, const struct filter_grad_cores_args a)
{
    FN(body)(GROUP, dy + dy_off, y + y_off, &a);
}
