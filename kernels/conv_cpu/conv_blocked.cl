/* conv_blocked.cl: 2-D convolution of maps with channels in blocks, for CPU devices: a work-item computes register
 * tiles.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s] + bias[k]
 *   + add )
 *
 * Layouts: x, y, add [ceil(C/B)][H][W][B] with batch strides; w packed by conv_pack.cl:
 * [groups][K/groups/(KV*B)][C/groups/B][R][S][B][KV*B], zeros for missing filters and channels. C/groups and K/groups
 * are multiples of B when there are groups; lanes of y past K are written as zeros.
 * Order: the weights of c_step channel blocks serve up to TILES tiles before the next ones are read, and those are
 * prefetched meanwhile, as what tiles with EDGE >= 0 read is: a network's weights come from memory, and so does a
 * batch.
 * Tile: T pixels of an output row by KV vectors of B filters, accumulators in registers. EDGE >= 0: the input is read
 * where it lies; rows have at least T pixels, and the last tile of one overlaps its neighbour and stores what is new; a
 * tap misses at most EDGE pixels of a tile on either side of the image, and leaves those out. EDGE -1: the columns that
 * the taps of a row need are first copied, zeros outside the image, to a private row, which costs a sixth more.
 * Index map: a work-item computes the tiles chunk * per_item ... of an image's rows, for one block of filters. The N *
 * chunks chunks come in spans, whose input stays in a core's cache for all filters: group = first chunk of the span *
 * blocks of filters + block * chunks of the span + chunk.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile and KV vectors of filters (T * KV + KV + 1 vector
 * registers); TILES tiles whose sums are kept; SW stride along a row; EDGE -1, 0, 1 or 2; ROW columns of the private
 * row; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) conv_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/prefetch.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef SW
#define SW 1
#endif
#ifndef EDGE
#define EDGE -1
#endif
#ifndef TILES
#define TILES 8
#endif
#ifndef ROW
#define ROW 128
#endif
#define SOON 16 /* channels from the weights that are read to those on their way to the first cache */
#define AHEAD 3 /* channel blocks from what a tile reads to what is prefetched, at the end of the next tile's */
#if EDGE >= 0
#define FIRST(ow) min(ow, a->out[1] - T) /* the last tile of a row starts earlier */
#else
#define FIRST(ow) (ow)
#endif

/* One tap on a block of channels, for the tile's pixels from `left` up to `right` before its end. */
#define TAP(left, right)                                                                            \
    _Pragma("unroll 1") for (int c = 0; c < V; c++, wp += KV * V)                                   \
    {                                                                                               \
        FV f[KV];                                                                                   \
        _Pragma("unroll") for (int v = 0; v < KV; v++)                                              \
        {                                                                                           \
            PREFETCH_NEAREST(wp + (SOON * KV + v) * V);                                             \
            f[v] = LOADV(wp, v * V);                                                                \
        }                                                                                           \
        _Pragma("unroll") for (int t = left; t < T - (right); t++)                                  \
        {                                                                                           \
            const FV value = row[t * SW * V + c];                                                   \
            _Pragma("unroll") for (int v = 0; v < KV; v++) acc[t][v] = fma(value, f[v], acc[t][v]); \
        }                                                                                           \
    }

/* Steps of `step` columns from `from` to 0, at least 0. */
#define STEPS(from, step) (max(from, 0) + (step) - 1) / (step)

/* Where a tile's results go: its first filter and row, its first column and the first that is new, the map of the
 * item. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    int k, oh, first, ow;
};

/* Brings near what the epilogue of a tile reads and overwrites. */
void FN(approach)(const struct FN(target) *to, const struct conv_blocked_args *a)
{
    const long map = (long)a->out[0] * a->out[1] * V;
    const int end = min(T, a->out[1] - to->first);
    long at = to->k / V * map + ((long)to->oh * a->out[1] + to->first) * V;
    for (int v = 0; v < KV && to->k + v * V < a->k; v++, at += map)
        for (int t = 0; t < end; t++) {
            PREFETCH(to->y + at + t * V);
            if (a->epi.add)
                PREFETCH(to->add + at + t * V);
        }
}

/* Adds to the sums of one tile (fresh: which are zero) what `c_blocks` blocks of input channels give, the first ones at
 * x and w; the last time the results are stored instead. Prefetches `lines` lines from `next` on, with every row. */
void FN(tile)(SRC x, SRC w, float *sums, bool fresh, bool last, int c_blocks, SRC next, int lines,
              const struct FN(target) *to, const struct conv_blocked_args *a)
{
    const long plane = (long)a->in[0] * a->in[1] * V;
    const int col = to->first * SW - a->pad[1];
#if EDGE < 0
    const int cols = (T - 1) * SW + (a->ker[1] - 1) * a->dil[1] + 1;
    const int left = min(max(-col, 0), cols), right = max(left, min(cols, a->in[1] - col)); /* [left, right) exist */
    float copy[ROW * V] __attribute__((aligned(64)));
    for (int j = 0; j < left; j++)
        KEEPV((FV)0.0f, copy, j * V);
    for (int j = right; j < cols; j++)
        KEEPV((FV)0.0f, copy, j * V);
#endif
    if (last)
        FN(approach)(to, a);
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = fresh ? (FV)0.0f : LOADV(sums, (v * T + t) * V);
    for (int cb = 0; cb < c_blocks; cb++, x += plane)
        for (int r = 0; r < a->ker[0]; r++, w += a->ker[1] * (V * KV * V)) {
            for (int j = 0; j < lines; j++, next += 16)
                PREFETCH(next);
            const int ih = to->oh * a->stride - a->pad[0] + r * a->dil[0];
            if (ih < 0 || ih >= a->in[0])
                continue;
            SRC src = x + ((long)ih * a->in[1] + col) * V;
            SRC wp = w;
#if EDGE >= 0
            SRC later = src + (cb + AHEAD < c_blocks ? AHEAD * plane : (AHEAD - c_blocks) * plane + T * SW * V);
#pragma unroll
            for (int t = 0; t < T; t++) /* what lies between is half of the same pair of lines, if it is read */
                PREFETCH(later + t * SW * V);
#endif
#if EDGE < 0
            for (int j = left; j < right; j++)
                KEEPV(LOADV(src, j * V), copy, j * V);
            const float *row = copy;
            for (int s = 0; s < a->ker[1]; s++, row += a->dil[1] * V)
                TAP(0, 0)
#elif EDGE == 0
            SRC row = src;
            for (int s = 0; s < a->ker[1]; s++, row += a->dil[1] * V)
                TAP(0, 0)
#else
            SRC row = src;
            for (int s = 0, at = col; s < a->ker[1]; s++, at += a->dil[1], row += a->dil[1] * V)
                switch (STEPS(-at, SW) - STEPS(at + (T - 1) * SW - a->in[1] + 1, SW)) {
                case 0:
                    TAP(0, 0)
                    break;
                case 1:
                    TAP(1, 0)
                    break;
                case -1:
                    TAP(0, 1)
                    break;
#if EDGE == 2
                case 2:
                    TAP(2, 0)
                    break;
                case -2:
                    TAP(0, 2)
                    break;
#endif
                }
#endif
        }
    if (!last) {
#pragma unroll
        for (int t = 0; t < T; t++)
#pragma unroll
            for (int v = 0; v < KV; v++)
                KEEPV(acc[t][v], sums, (v * T + t) * V);
        return;
    }
    const long map = (long)a->out[0] * a->out[1] * V;
    const int begin = to->ow - to->first, end = min(T, a->out[1] - to->first);
    const int past = (to->k / a->kg + 1) * a->kg; /* of the group's filters */
    long at = to->k / V * map + ((long)to->oh * a->out[1] + to->first) * V;
    const struct blocked_epilogue epi = a->epi; /* copies: stores of y cannot change them */
    const global float *add = to->add;
    global float *y = to->y;
    /* nearly all tiles: nothing to ask for each pixel */
    if (begin == 0 && end == T && to->k + KV * V <= min(past, a->k)) {
#pragma unroll
        for (int v = 0; v < KV; v++, at += map) {
            const FV b = FN(bias)(to->bias, to->k + v * V, a->k, &epi);
#pragma unroll
            for (int t = 0; t < T; t++)
                FN(store)(acc[t][v], b, add, y, at + t * V, V, &epi);
        }
        return;
    }
#pragma unroll
    for (int v = 0; v < KV; v++, at += map) {
        const int k = to->k + v * V;
        if (k < past) {
            const FV b = FN(bias)(to->bias, k, a->k, &epi);
#pragma unroll
            for (int t = 0; t < T; t++)
                if (t >= begin && t < end)
                    FN(store)(acc[t][v], b, add, y, at + t * V, a->k - k, &epi);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_blocked_args *a)
{
    const int blocks = a->k_blocks * a->groups, all = a->n * a->chunks;
    const int from = (int)(group / (ulong)(a->span * blocks)) * a->span, span = min(a->span, all - from);
    const int index = (int)(group - (ulong)from * blocks), block = index / span;
    const int part = from + index % span, n = part / a->chunks, chunk = part % a->chunks;
    const int g = block / a->k_blocks; /* of groups > 1, whose blocks are full */
    const int kk = g * a->kg + block % a->k_blocks * (KV * V);
    const int per_row = (a->out[1] + T - 1) / T;
    const long plane = (long)a->in[0] * a->in[1] * V, taps = (long)a->ker[0] * a->ker[1] * (V * KV * V);
    SRC xn = x + n * a->src_n + g * a->c_blocks * plane;
    SRC wp = w + block * a->c_blocks * taps;
    const int end = min((chunk + 1) * a->per_item, per_row * a->out[0]);
    struct FN(target) to = {bias, add + n * a->add_n, y + n * a->dst_n, kk, 0, 0, 0};
    float sums[TILES][T * KV * V] __attribute__((aligned(64)));
    for (int begin = chunk * a->per_item; begin < end; begin += TILES) {
        const int count = min(TILES, end - begin);
        for (int cb = 0; cb < a->c_blocks; cb += a->c_step) {
            const int step = min(a->c_step, a->c_blocks - cb), rows = count * step * a->ker[0];
            const bool more =
                cb + step < a->c_blocks || (chunk == a->chunks - 1 && block < a->k_blocks * a->groups - 1);
            const int lines = more ? ((int)(step * taps / 16) + rows - 1) / rows : 0;
            for (int i = 0; i < count; i++) {
                to.oh = (begin + i) / per_row;
                to.ow = (begin + i) % per_row * T;
                to.first = FIRST(to.ow);
                FN(tile)(xn + cb * plane, wp + cb * taps, sums[i], cb == 0, cb + step == a->c_blocks, step,
                         wp + (cb + step) * taps + (long)i * step * a->ker[0] * lines * 16, lines, &to, a);
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
