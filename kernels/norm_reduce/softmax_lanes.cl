/* softmax_lanes.cl: softmax and log_softmax by several work-items a row, for GPUs; safe for large values.
 *
 *   m = max_l x[l], s = sum_l exp(x[l] - m);  y[l] = exp(x[l] - m) / s  or  y[l] = x[l] - m - log(s)
 *
 * A row's elements are read once, all at once where registers hold them.
 * Layouts: x and y are (n, m, l, i) with batch strides; struct softmax_args.
 * Index map: COLUMNS 0: group = WG / LANES rows (n, m); 1: group = row * pieces + tile, a tile is WG / LANES of the
 * `inner` elements side by side.
 * Work-group: LANES work-items a row. Local memory: WG floats.
 * Defines: LOG (0: softmax, 1: log_softmax), WG; COLUMNS, LANES, KEPT, LOOPS (lanes.clh); INDEX, uint or ulong: that
 * of groups. */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "norm_reduce/lanes.clh"
#ifndef FN
#define FN(x) softmax_lanes_##x
#endif
#ifndef LOG
#define LOG 0
#endif
#ifndef INDEX
#define INDEX ulong
#endif
#define SCRATCH ((WG + 3) / 4)

LANES_SHARE(FN(share_max), float, fmax) /* fmax drops NaN, which the exponentials then show */
LANES_SHARE(FN(share_sum), float, LANES_ADD)

/* This work-item's elements of a block of a row that has n; past it what adds nothing. */
void FN(load)(SRC x, long step, int block, long n, float v[KEPT])
{
#pragma unroll
    for (int e = 0; e < KEPT; e++) {
        const int i = IN_BLOCK(block, e);
        v[e] = i < n ? x[COLUMNS ? i * step : i] : -INFINITY;
    }
}

/* Sum of the exponentials of those of the elements that the row has, which softmax keeps in v. */
float FN(exponentials)(float v[KEPT], int block, long n, float top)
{
    float s[2] = {0.0f, 0.0f};
#pragma unroll
    for (int e = 0; e < KEPT; e++)
        if (IN_BLOCK(block, e) < n) {
            const float power = exp(v[e] - top);
            s[e % 2] += power;
            if ((LOG | LOOPS) == 0)
                v[e] = power;
        }
    return s[0] + s[1];
}

void FN(write)(const float v[KEPT], DST y, long step, int block, long n, float top, float sum)
{
#pragma unroll
    for (int e = 0; e < KEPT; e++) {
        const int i = IN_BLOCK(block, e);
        if (i < n)
            y[COLUMNS ? i * step : i] = LOG ? v[e] - top - sum : LOOPS ? exp(v[e] - top) / sum : v[e] / sum;
    }
}

void FN(body)(ulong group, SRC x, DST y, const struct softmax_args *a, local float4 *scratch)
{
    local float *buf = (local float *)scratch;
#if COLUMNS
    const INDEX row = (INDEX)group / (INDEX)a->pieces, column = ((INDEX)group - row * (INDEX)a->pieces) * ROWS + WHICH;
    const long n = column < (INDEX)a->inner ? a->length : 0;
#else
    const INDEX row = (INDEX)group * ROWS + WHICH, column = 0;
    const long n = row < (INDEX)a->rows ? a->length : 0;
#endif
    const INDEX item = row / (INDEX)a->middle, m = row - item * (INDEX)a->middle;
    SRC xr = x + item * a->x_n + m * a->middle_step + column;
    DST yr = y + item * a->y_n + m * a->middle_step + column;
    float v[KEPT], top = -INFINITY, sum = 0.0f;
    FOR_BLOCKS(b, n)
    {
        FN(load)(xr, a->x_step, b, n, v);
#pragma unroll
        for (int e = 0; e < KEPT; e++)
            top = fmax(top, v[e]);
    }
    top = FN(share_max)(top, buf);
    FOR_BLOCKS(b, n)
    {
        if (LOOPS)
            FN(load)(xr, a->x_step, b, n, v);
        sum += FN(exponentials)(v, b, n, top);
    }
    sum = FN(share_sum)(sum, buf);
    if (LOG)
        sum = log(sum);
    FOR_BLOCKS(b, n)
    {
        if (LOOPS)
            FN(load)(xr, a->x_step, b, n, v);
        FN(write)(v, yr, a->y_step, b, n, top, sum);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct softmax_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, &a, scratch);
}
