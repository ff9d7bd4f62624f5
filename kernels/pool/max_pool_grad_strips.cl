/* max_pool_grad_strips.cl: the gradient of maxima of 2-D windows, a strip of columns a work-item, for GPUs.
 *
 *   dx[n][c][i] = sum of dy[n][c][o] over the windows o whose first maximum, or first NaN, is x[n][c][i]
 *
 * A work-item goes down COLS columns of a map. For each of the windows that can see them it keeps the winner of each of
 * the last KH rows, so that a row is compared once however many windows lie over it, and the sums of the rows that
 * later windows still see. It writes rows that no later window sees. Nothing is shared.
 * Layouts: NCHW with batch strides. Index map: work-item = ((n * C + c) * pieces + piece) * strips + strip; a piece is
 * `cells` cells high, a cell SH rows of the padded map.
 * Work-group: WG. Local memory: none.
 * Defines: WG (any), COLS (columns of a strip, a multiple of SW), KH, KW (the window), SH, SW (strides), PHASE (left
 * padding modulo SW), INDEX (uint, or ulong when the number of a work-item needs it); RECTIFIED 1: windows whose
 * maximum is not positive give nothing. */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/strided_window.clh"
#ifndef FN
#define FN(x) max_pool_grad_strips_##x
#endif
#ifndef COLS
#define COLS 4
#endif
#ifndef PHASE
#define PHASE 0
#endif
#ifndef INDEX
#define INDEX ulong
#endif
#ifndef RECTIFIED
#define RECTIFIED 0
#endif
#define BEFORE ((KW - 1 - PHASE) / SW) /* windows that begin left of the strip's first cell and see the strip */
#define WINDOWS (BEFORE + 1 + (COLS - 1 + PHASE) / SW)
#define LEFT (BEFORE * SW + PHASE) /* where the first window begins, left of the strip */
#define SPAN ((WINDOWS - 1) * SW + KW)
#define KEPT (KH > SH ? KH - SH : 0) /* rows of a window that the next one down sees, too */
#define HIGH (KH > SH ? KH : SH)

/* The larger of two maxima of which v comes later: NaN is the largest, and of equal ones the first stays. */
#define LATER_WINS(v, best) (((best) == (best)) & !((v) <= (best)))

/* `count` sums of a row; `whole`: all of them, and `to` lies on a boundary of as many. */
void FN(put)(DST to, const float sum[COLS], int count, bool whole)
{
#if COLS == 2
    if (whole) {
        *(global float2 *)to = (float2)(sum[0], sum[1]);
        return;
    }
#elif COLS == 4
    if (whole) {
        *(global float4 *)to = (float4)(sum[0], sum[1], sum[2], sum[3]);
        return;
    }
#endif
#pragma unroll
    for (int s = 0; s < COLS; s++)
        if (s < count)
            to[s] = sum[s];
}

void FN(body)(ulong group, SRC x, SRC dy, DST dx, const struct max_strips_args *m)
{
    const struct pool_args *a = &m->pool;
    const INDEX item = (INDEX)group * WG + LANE;
    const INDEX strips = (INDEX)(a->in[2] + COLS - 1) / COLS, pieces = (INDEX)a->pieces;
    const INDEX above = item / strips, plane = above / pieces;
    const int c0 = (int)(item - above * strips) * COLS, cell0 = (int)(above - plane * pieces) * m->cells;
    const int cells = (a->in[1] + a->pad[1] - 1) / SH + 1, cell1 = min(cell0 + m->cells, cells);
    const INDEX n = plane / (INDEX)a->c, c = plane - n * (INDEX)a->c;
    SRC xc = x + n * a->x_n + (long)c * a->in[1] * a->in[2];
    SRC yc = dy + n * a->y_n + (long)c * a->out[1] * a->out[2];
    DST to = dx + n * m->dx_n + (long)c * a->in[1] * a->in[2];
    const bool whole = ((ulong)to & (4 * COLS - 1)) == 0 && a->in[2] % COLS == 0;
    const int ow0 = (c0 + a->pad[2] - PHASE) / SW - BEFORE;
    float best[KH][WINDOWS], sum[HIGH][COLS];
    int at[KH][WINDOWS]; /* columns of the winners, from the window's first one */
    int first[WINDOWS];  /* the first column of each window inside the map: the winner of a row of -INFINITY */
#pragma unroll
    for (int w = 0; w < WINDOWS; w++)
        first[w] = max(0, LEFT - c0 - w * SW);
#pragma unroll
    for (int r = 0; r < HIGH; r++)
#pragma unroll
        for (int s = 0; s < COLS; s++)
            sum[r][s] = 0.0f;
#pragma unroll
    for (int r = 0; r < KH; r++)
#pragma unroll
        for (int w = 0; w < WINDOWS; w++) {
            best[r][w] = -INFINITY;
            at[r][w] = first[w];
        }
    /* the first windows that see the piece's first cell find rows of none, as the map's first windows do */
    for (int oh = cell0 - (KH - 1) / SH - (KEPT + SH - 1) / SH; oh < cell1 && plane < (INDEX)a->rows; oh++) {
        const int top = oh * SH - a->pad[1];
#pragma unroll
        for (int r = KEPT; r < KH; r++) {
            const int h = top + r;
            const bool row = h >= 0 && h < a->in[1];
            float v[SPAN];
#pragma unroll
            for (int s = 0; s < SPAN; s++) {
                const int column = c0 - LEFT + s;
                v[s] = row && column >= 0 && column < a->in[2] ? xc[h * a->in[2] + column] : -INFINITY;
            }
#pragma unroll
            for (int w = 0; w < WINDOWS; w++) {
                best[r][w] = -INFINITY;
                at[r][w] = first[w];
#pragma unroll
                for (int s = 0; s < KW; s++) {
                    const bool better = LATER_WINS(v[w * SW + s], best[r][w]);
                    best[r][w] = better ? v[w * SW + s] : best[r][w];
                    at[r][w] = better ? s : at[r][w];
                }
            }
        }
        const int skip = max(0, -top); /* rows above the map */
#pragma unroll
        for (int w = 0; w < WINDOWS; w++) {
            const bool window = oh >= 0 && oh < a->out[1] && ow0 + w >= 0 && ow0 + w < a->out[2];
            const float slope = window ? yc[oh * a->out[2] + ow0 + w] : 0.0f;
            float most = -INFINITY;
            int place = skip * KW + first[w];
#pragma unroll
            for (int r = 0; r < KH; r++) {
                const bool better = LATER_WINS(best[r][w], most);
                most = better ? best[r][w] : most;
                place = better ? r * KW + at[r][w] : place;
            }
            if (RECTIFIED)
                place = most > 0.0f ? place : -1;
#pragma unroll
            for (int r = 0; r < KH; r++)
#pragma unroll
                for (int s = 0; s < COLS; s++) {
                    const int tap = s + LEFT - w * SW; /* of the window, the strip's column s */
                    if (tap >= 0 && tap < KW)
                        sum[r][s] += window && place == r * KW + tap ? slope : 0.0f;
                }
        }
#pragma unroll
        for (int r = 0; r < SH; r++)
            if (oh >= cell0 && top + r >= 0 && top + r < a->in[1])
                FN(put)(to + (top + r) * a->in[2] + c0, sum[r], whole ? COLS : min(COLS, a->in[2] - c0), whole);
#pragma unroll
        for (int r = 0; r < HIGH; r++)
#pragma unroll
            for (int s = 0; s < COLS; s++)
                sum[r][s] = r + SH < HIGH ? sum[r + SH < HIGH ? r + SH : r][s] : 0.0f;
#pragma unroll
        for (int r = 0; r < KEPT; r++)
#pragma unroll
            for (int w = 0; w < WINDOWS; w++) {
                best[r][w] = best[r + SH < KH ? r + SH : r][w];
                at[r][w] = at[r + SH < KH ? r + SH : r][w];
            }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST dx, ulong dx_off, const struct max_strips_args a)
{
    FN(body)(GROUP, x + x_off, dy + dy_off, dx + dx_off, &a);
}
