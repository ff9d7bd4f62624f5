/* max_pool_grad_tile.cl: the gradient of maxima of 2-D windows, a tile of dx a group, for GPUs.
 *
 *   dx[n][c][i] = sum of dy[n][c][o] over the windows o whose first maximum, or first NaN, is x[n][c][i]
 *
 * The group finds where the windows that meet its tile have their maxima, each once, and leaves that in local memory
 * beside their dy. Then a work-item has a cell, the SH x SW elements of the padded map from which the same windows can
 * be seen: it looks at each of these once, and knows at compile time which elements lie in which.
 * Layouts: NCHW with batch strides. Index map: group = ((n * C + c) * tiles down + row of tiles) * tiles across + tile.
 * Cells that begin before the map, or end behind it, count.
 * Work-group: WG. Local memory: two words for each of HIGH * WIDE windows.
 * Defines: WG (any), CH, CW (cells of a tile), KH, KW (the window), SH, SW (strides); RECTIFIED 1: windows whose
 * maximum is not positive give nothing. */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/strided_window.clh"
#ifndef FN
#define FN(x) max_pool_grad_tile_##x
#endif
#ifndef CH
#define CH 8
#endif
#ifndef CW
#define CW 8
#endif
#ifndef RECTIFIED
#define RECTIFIED 0
#endif
#define SEEN_H ((KH + SH - 1) / SH) /* windows that a cell can be seen from, down and across */
#define SEEN_W ((KW + SW - 1) / SW)
#define HIGH (CH + SEEN_H - 1) /* windows that can meet a tile */
#define WIDE (CW + SEEN_W - 1)
#define SCRATCH ((HIGH * WIDE * 2 + 3) / 4)

/* Where the window that begins at (top, left) has its maximum, or -1. Elements are asked for all at once: where each of
 * them lies does not depend on whether it lies inside. */
int FN(winner)(SRC xc, int top, int left, const struct pool_args *a)
{
    int at = -1;
    float best = -INFINITY;
#pragma unroll
    for (int r = 0; r < KH; r++)
#pragma unroll
        for (int s = 0; s < KW; s++) {
            const int h = clamp(top + r, 0, a->in[1] - 1), w = clamp(left + s, 0, a->in[2] - 1);
            const int place = h * a->in[2] + w;
            const float v = xc[place];
            const int inside = (h == top + r) & (w == left + s);
            const int better = inside & (best == best) & ((at < 0) | !(v <= best));
            at = better ? place : at;
            best = better ? v : best;
        }
    return RECTIFIED && !(best > 0.0f) ? -1 : at;
}

/* A cell whose first element is (h, w); winners, slopes: of its own window, the last of those it is seen from. `whole`:
 * pairs of elements lie on boundaries of 8 bytes. */
void FN(cell)(DST to, const local int *winners, const local float *slopes, int h, int w, bool whole,
              const struct pool_args *a)
{
    float sum[SH * SW];
#pragma unroll
    for (int e = 0; e < SH * SW; e++)
        sum[e] = 0.0f;
#pragma unroll
    for (int r = SEEN_H - 1; r >= 0; r--)
#pragma unroll
        for (int s = SEEN_W - 1; s >= 0; s--) {
            const int winner = winners[-r * WIDE - s];
            const float slope = slopes[-r * WIDE - s];
#pragma unroll
            for (int e = 0; e < SH * SW; e++)
                if (e / SW + r * SH < KH && e % SW + s * SW < KW)
                    sum[e] += winner == (h + e / SW) * a->in[2] + w + e % SW ? slope : 0.0f;
        }
#pragma unroll
    for (int u = 0; u < SH; u++) {
        const bool row = h + u >= 0 && h + u < a->in[1];
        DST first = to + (long)(h + u) * a->in[2] + w;
        if (SW == 2 && whole) {
            if (row && w >= 0 && w < a->in[2])
                *(global float2 *)first = (float2)(sum[u * SW], sum[u * SW + SW - 1]);
        } else {
#pragma unroll
            for (int v = 0; v < SW; v++)
                if (row && w + v >= 0 && w + v < a->in[2])
                    first[v] = sum[u * SW + v];
        }
    }
}

void FN(body)(ulong group, SRC x, SRC dy, DST dx, const struct max_pool_grad_args *m, local float4 *scratch)
{
    const struct pool_args *a = &m->pool;
    local int *winners = (local int *)scratch;
    local float *slopes = (local float *)(winners + HIGH * WIDE);
    const int cells_down = (a->in[1] + a->pad[1] - 1) / SH + 1, cells_across = (a->in[2] + a->pad[2] - 1) / SW + 1;
    const uint down = (uint)(cells_down + CH - 1) / CH, across = (uint)(cells_across + CW - 1) / CW;
    const uint plane = (uint)(group / (across * down)), tile = (uint)(group - (ulong)plane * (across * down));
    const uint n = plane / (uint)a->c, c = plane - n * (uint)a->c;
    const int i0 = (int)(tile / across) * CH, j0 = (int)(tile % across) * CW;
    SRC xc = x + n * a->x_n + (long)c * a->in[1] * a->in[2];
    SRC yc = dy + n * a->y_n + (long)c * a->out[1] * a->out[2];
    DST to = dx + n * m->dx_n + (long)c * a->in[1] * a->in[2];
    const bool whole = ((ulong)to & 7) == 0 && ((a->in[2] | a->pad[2]) & 1) == 0;
    for (int i = LANE; i < HIGH * WIDE; i += WG) {
        const int oh = i0 - (SEEN_H - 1) + i / WIDE, ow = j0 - (SEEN_W - 1) + i % WIDE;
        const bool present = oh >= 0 && oh < a->out[1] && ow >= 0 && ow < a->out[2];
        winners[i] = present ? FN(winner)(xc, oh * SH - a->pad[1], ow * SW - a->pad[2], a) : -1;
        slopes[i] = present ? yc[oh * a->out[2] + ow] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = LANE; i < CH * CW; i += WG) {
        const int at = (i / CW + SEEN_H - 1) * WIDE + i % CW + SEEN_W - 1;
        FN(cell)(to, winners + at, slopes + at, (i0 + i / CW) * SH - a->pad[1], (j0 + i % CW) * SW - a->pad[2], whole,
                 a);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST dx, ulong dx_off, const struct max_pool_grad_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dy + dy_off, dx + dx_off, &a, scratch);
}
