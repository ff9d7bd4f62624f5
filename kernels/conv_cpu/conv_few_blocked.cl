/* conv_few_blocked.cl: 2-D convolution from a map with channels in blocks to a row-major one of few filters, for CPU
 * devices.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s] + bias[k] + add )
 *
 * Lanes are channels: where filters were lanes, few of them would leave most of a vector empty. A tile's sums are added
 * up across their lanes at the end.
 * Layouts: x [ceil(C/V)][H][W][V], y and add [K][P][Q], all with batch strides; w packed by conv_transpose_pack.cl:
 * [ceil(C/V)][R][S][K][V], zeros past C.
 * Tile: T pixels of an output row by K filters, accumulators in registers. A tap that misses pixels of a tile reads a
 * copy of its columns, zeros outside the image, and one that misses them all is left out.
 * Order: the weights of c_step channel blocks serve all tiles of a work-item before the next ones are read.
 * Index map: group = (n * P + oh) * segments + segment; a segment is per_item tiles, TILES at most.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; K filters; T pixels of a tile, a power of two up to V (T * K + K + 1 vector
 * registers); TILES tiles whose sums are kept; SW stride along a row; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/conv_cpu_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_few_blocked_##x
#endif
#include "common/activation_vec.clh"
#ifndef K
#define K 3
#endif
#ifndef T
#define T 8
#endif
#ifndef TILES
#define TILES 16
#endif
#ifndef SW
#define SW 1
#endif
#define SUMS T
#include "common/lanes_sum.clh"

/* One tap of a channel block: row has the tile's columns, SW vectors apart. */
#define TAP(row)                                                                                   \
    {                                                                                              \
        FV f[K];                                                                                   \
        _Pragma("unroll") for (int k = 0; k < K; k++) f[k] = LOADV(wp, k * V);                     \
        _Pragma("unroll") for (int t = 0; t < T; t++)                                              \
        {                                                                                          \
            const FV value = LOADV(row, t * SW * V);                                               \
            _Pragma("unroll") for (int k = 0; k < K; k++) acc[k][t] = fma(value, f[k], acc[k][t]); \
        }                                                                                          \
    }

/* Where a tile's results go: its row and first column, and how many of its pixels there are. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    int oh, ow, count;
};

void FN(finish)(FV sum, int k, const struct FN(target) *to, const struct conv_few_blocked_args *a)
{
    const long at = ((long)k * a->out[0] + to->oh) * a->out[1] + to->ow;
    float lanes[V] __attribute__((aligned(64)));
    if (a->epi.bias)
        sum += to->bias[k];
    for (int t = 0; a->epi.add && t < V; t++)
        lanes[t] = t < to->count ? to->add[at + t] : 0.0f;
    if (a->epi.add == 1)
        sum += LOADV(lanes, 0);
    sum = VECTOR_ACT(EPI_ACT)(sum, a->epi.p0, a->epi.p1);
    if (a->epi.add == 2)
        sum *= LOADV(lanes, 0);
    KEEPV(sum, lanes, 0);
    for (int t = 0; t < to->count; t++)
        to->y[at + t] = lanes[t];
}

/* Adds to the sums of one tile (fresh: which are zero) what `blocks` channel blocks give, the first one at x and w; the
 * last time the results are stored instead. */
void FN(tile)(SRC x, SRC w, float *sums, bool fresh, bool last, int blocks, const struct FN(target) *to,
              const struct conv_few_blocked_args *a)
{
    const int width = a->in[1], col = to->ow * SW - a->pad[1], top = to->oh * a->stride - a->pad[0];
    const long plane = (long)a->in[0] * width * V;
    float copy[T * SW * V] __attribute__((aligned(64)));
    FV acc[K][T];
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int t = 0; t < T; t++)
            acc[k][t] = fresh ? (FV)0.0f : LOADV(sums, (k * T + t) * V);
    for (int cb = 0; cb < blocks; cb++, x += plane)
        for (int r = 0; r < a->ker[0]; r++, w += a->ker[1] * (K * V)) {
            const int ih = top + r * a->dil[0];
            if (ih < 0 || ih >= a->in[0])
                continue;
            SRC src = x + ((long)ih * width + col) * V;
            SRC wp = w;
#pragma unroll 1
            for (int s = 0, at = col; s < a->ker[1]; s++, at += a->dil[1], src += a->dil[1] * V, wp += K * V)
                if (at >= 0 && at + (T - 1) * SW < width) {
                    TAP(src)
                } else if (at + (T - 1) * SW >= 0 && at < width) {
#pragma unroll 1
                    for (int t = 0, column = at; t < T; t++, column += SW) {
                        FV value = 0.0f;
                        if (column >= 0 && column < width)
                            value = LOADV(src, t * SW * V);
                        KEEPV(value, copy, t * SW * V);
                    }
                    TAP(copy)
                }
        }
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (last) {
            FN(finish)(FN(lanes_sum)(acc[k]), k, to, a);
            continue;
        }
#pragma unroll
        for (int t = 0; t < T; t++)
            KEEPV(acc[k][t], sums, (k * T + t) * V);
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_few_blocked_args *a)
{
    const int ow = (int)(group % a->segments) * a->per_item * T;
    const ulong rest = group / a->segments;
    const int oh = (int)(rest % a->out[0]), n = (int)(rest / a->out[0]);
    const int tiles = min(a->per_item, (a->out[1] - ow + T - 1) / T);
    const long plane = (long)a->in[0] * a->in[1] * V, taps = (long)a->ker[0] * a->ker[1] * (K * V);
    SRC xn = x + n * a->src_n;
    struct FN(target) to = {.bias = bias, .add = add + n * a->add_n, .y = y + n * a->dst_n, .oh = oh};
    float sums[TILES][K * T * V] __attribute__((aligned(64)));
    for (int cb = 0; cb < a->c_blocks; cb += a->c_step) {
        const int blocks = min(a->c_step, a->c_blocks - cb);
        for (int i = 0; i < tiles; i++) {
            to.ow = ow + i * T;
            to.count = min(T, a->out[1] - to.ow);
            FN(tile)(xn + cb * plane, w + cb * taps, sums[i], cb == 0, cb + blocks == a->c_blocks, blocks, &to, a);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_few_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
