/* conv_pool_stem.cl: 2-D convolution from a row-major map of few channels, its epilogue and the maximum of windows, to
 * a map with channels in blocks, for CPU devices.
 *
 *   y[n][k][ph][pw] = max over i < window, j < PW of m[n][k][ph * step - lead + i][pw * PS - lead + j], inside m only
 *   m[n][k][oh][ow] = act( sum_{c,r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s] + bias[k] + add )
 *
 * Layouts: x [C][H][W], add [ceil(K/V)][P][Q][V] of the size of m, y [ceil(K/V)][pooled P][pooled Q][V], all with batch
 * strides; w packed as for conv_stem.cl. Lanes of y past K are written as zeros.
 * A work-item computes `rows` rows of y. It goes down the rows of m under them, and through the filters: a row of KV
 * vectors of them is finished in private memory, pooled along the row there, and then combined with what y has from the
 * rows above. NaN wins a maximum. Rows of m that windows of two work-items share are computed by both.
 * Index map: group = n * bands + band of rows.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T, KV, SW, AREA (conv_stem.clh); LINE floats of the private row of m; PW, PS
 * width of a window and distance between two; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "fused/conv_pool_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_pool_stem_##x
#endif
#include "common/columns.clh"
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "conv_cpu/conv_stem.clh"
#ifndef LINE
#define LINE 8192
#endif
#ifndef PW
#define PW 3
#endif
#ifndef PS
#define PS 2
#endif

/* Row oh of m, filters k on, between columns that no window must choose: line [KV][columns][V]. */
void FN(line)(float *line, const float *area, int width, int k, int oh, SRC w, SRC bias, SRC add,
              const struct conv_pool_stem_args *p)
{
    const struct conv_stem_args *a = &p->stem;
    const struct blocked_epilogue epi = a->epi;
    for (int first = 0; first < a->out[1]; first += T) {
        FV acc[T][KV];
        FN(sums)(acc, area + first * SW, width, w, a);
#pragma unroll
        for (int v = 0; v < KV; v++)
            if (k + v * V < a->k) {
                const int block = k / V + v, lanes = a->k - block * V;
                const FV b = FN(bias)(bias, block * V, a->k, &epi);
                const long i = (((long)block * a->out[0] + oh) * a->out[1] + first) * V;
#pragma unroll
                for (int t = 0; t < T; t++)
                    if (first + t < a->out[1])
                        KEEPV(FN(finish)(acc[t][v], b, add, i + t * V, lanes, &epi), line,
                              (v * p->columns + p->lead[1] + first + t) * V);
            }
    }
}

/* Pools `line` along the row into the rows [first, past) of y under row oh of m; y is that of one block of filters. */
void FN(pool)(const float *line, DST y, int oh, int first, int past, const struct conv_pool_stem_args *p)
{
    const int below = oh + p->lead[0];
    const int from = max(first, below < p->window ? 0 : (below - p->window) / p->step + 1);
    const int to = min(past, below / p->step + 1);
    for (int pw = 0; pw < p->pooled[1]; pw++) {
        FV m = LOADV(line, pw * PS * V);
#pragma unroll
        for (int j = 1; j < PW; j++)
            m = FN(larger)(m, LOADV(line, (pw * PS + j) * V));
        for (int ph = from; ph < to; ph++) {
            const long i = ((long)ph * p->pooled[1] + pw) * V;
            const int starts = oh == max(ph * p->step - p->lead[0], 0);
            STOREV(starts ? m : FN(larger)(LOADV(y, i), m), y, i);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_pool_stem_args *p)
{
    const struct conv_stem_args *a = &p->stem;
    const int bands = (p->pooled[0] + p->rows - 1) / p->rows;
    const long n = (long)(group / bands);
    const int first = (int)(group % bands) * p->rows, past = min(first + p->rows, p->pooled[0]);
    const int top = max(first * p->step - p->lead[0], 0);
    const int end = min((past - 1) * p->step - p->lead[0] + p->window, a->out[0]);
    const int width = FN(width)((a->out[1] + T - 1) / T, a);
    const int taps = a->c * a->ker[0] * a->ker[1];

    float area[AREA] __attribute__((aligned(64)));
    float line[LINE] __attribute__((aligned(64)));
    for (int i = 0; i < KV * p->columns; i++)
        KEEPV((FV)-INFINITY, line, i * V);
    for (int oh = top; oh < end; oh++) {
        FN(rows)(area, x + n * a->src_n, oh, -a->pad[1], width, a);
        for (int k = 0; k < a->k; k += KV * V) {
            FN(line)(line, area, width, k, oh, w + (long)k * taps, bias, add + n * a->add_n, p);
            for (int v = 0; v < KV && k + v * V < a->k; v++)
                FN(pool)(line + v * p->columns * V,
                         y + n * a->dst_n + (long)(k / V + v) * p->pooled[0] * p->pooled[1] * V, oh, first, past, p);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_pool_stem_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
