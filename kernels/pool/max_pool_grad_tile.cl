/* max_pool_grad_tile.cl: the gradient of maxima of 2-D windows, a tile of dx a group, for GPUs.
 *
 *   dx[n][c][i] = sum of dy[n][c][o] over the windows o whose first maximum, or first NaN, is x[n][c][i]
 *
 * The group finds where the windows that meet its tile have their maxima, each once, and leaves that in local memory
 * beside their dy; then each element of the tile asks the few windows that it lies in.
 * Layouts: NCHW with batch strides. Index map: group = ((n * C + c) * tiles down + row of tiles) * tiles across + tile.
 * Work-group: WG. Local memory: two words for each of HIGH * WIDE windows.
 * Defines: WG (any), TH, TW (the tile; TW a power of two), KH, KW (the window), SH, SW (strides). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#ifndef FN
#define FN(x) max_pool_grad_tile_##x
#endif
#ifndef TH
#define TH 8
#endif
#ifndef TW
#define TW 8
#endif
#ifndef KH
#define KH 3
#endif
#ifndef KW
#define KW 3
#endif
#ifndef SH
#define SH 2
#endif
#ifndef SW
#define SW 2
#endif
#define HIGH ((TH + KH - 2) / SH + 1) /* windows that can meet a tile */
#define WIDE ((TW + KW - 2) / SW + 1)
#define SCRATCH ((HIGH * WIDE * 2 + 3) / 4)

/* The first window that has element `at` of the padded map, counted from its beginning. */
int FN(first_window)(int at, int ker, int stride)
{
    return at < ker ? 0 : (at - ker) / stride + 1;
}

/* Where the window that begins at (top, left) has its maximum. */
int FN(winner)(SRC xc, int top, int left, const struct pool_args *a)
{
    int at = -1;
    float best = 0.0f;
#pragma unroll
    for (int r = 0; r < KH; r++)
#pragma unroll
        for (int s = 0; s < KW; s++) {
            const int h = top + r, w = left + s;
            if (h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2]) {
                const float v = xc[h * a->in[2] + w];
                const bool better = at < 0 || v > best || (v != v && best == best);
                at = better ? h * a->in[2] + w : at;
                best = better ? v : best;
            }
        }
    return at;
}

void FN(body)(ulong group, SRC x, SRC dy, DST dx, const struct max_pool_grad_args *m, local float4 *scratch)
{
    const struct pool_args *a = &m->pool;
    local int *winners = (local int *)scratch;
    local float *slopes = (local float *)(winners + HIGH * WIDE);
    const uint across = (uint)(a->in[2] + TW - 1) / TW, down = (uint)(a->in[1] + TH - 1) / TH;
    const uint plane = (uint)(group / (across * down)), tile = (uint)(group - (ulong)plane * (across * down));
    const uint n = plane / (uint)a->c, c = plane - n * (uint)a->c;
    const int h0 = (int)(tile / across) * TH, w0 = (int)(tile % across) * TW;
    const int oh0 = FN(first_window)(h0 + a->pad[1], KH, SH), ow0 = FN(first_window)(w0 + a->pad[2], KW, SW);
    SRC xc = x + n * a->x_n + (long)c * a->in[1] * a->in[2];
    SRC yc = dy + n * a->y_n + (long)c * a->out[1] * a->out[2];
    DST to = dx + n * m->dx_n + (long)c * a->in[1] * a->in[2];
    for (int i = LANE; i < HIGH * WIDE; i += WG) {
        const int oh = oh0 + i / WIDE, ow = ow0 + i % WIDE;
        const bool present = oh < a->out[1] && ow < a->out[2];
        winners[i] = present ? FN(winner)(xc, oh * SH - a->pad[1], ow * SW - a->pad[2], a) : -1;
        slopes[i] = present ? yc[oh * a->out[2] + ow] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = LANE; i < TH * TW; i += WG) {
        const int h = h0 + i / TW, w = w0 + i % TW, place = h * a->in[2] + w;
        if (h < a->in[1] && w < a->in[2]) {
            const int first = FN(first_window)(h + a->pad[1], KH, SH) - oh0;
            const int left = FN(first_window)(w + a->pad[2], KW, SW) - ow0;
            const int past = (h + a->pad[1]) / SH - oh0, right = (w + a->pad[2]) / SW - ow0;
            float sum = 0.0f;
            for (int r = first; r <= past; r++)
                for (int s = left; s <= right; s++)
                    if (winners[r * WIDE + s] == place)
                        sum += slopes[r * WIDE + s];
            to[place] = sum;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST dx, ulong dx_off, const struct max_pool_grad_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, dy + dy_off, dx + dx_off, &a, scratch);
}
