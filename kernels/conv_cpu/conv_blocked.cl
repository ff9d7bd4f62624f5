/* conv_blocked.cl: convolution of maps with channels in blocks, for CPU devices: a work-item computes register tiles.
 *
 *   y[n][k][od][oh][ow] = act( sum_{c,t,r,s} x[n][g*C/g + c][od*sd - pd + t*dd][oh*sh - ph + r*dh][ow*sw - pw + s*dw]
 *                                            * w[k][c][t][r][s] + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/B)][D][H][W][B] with batch strides (D = 1 for maps of one and two dimensions); w packed by
 * conv_pack.cl: [groups][blocks of KV*B filters][blocks of B channels][T][R][S][B][KV*B], zeros for missing filters and
 * channels. Lanes of y past K are written as zeros.
 * Groups: with PARTS 0, C/groups and K/groups are multiples of B when there are groups. With PARTS 1 a group begins and
 * ends anywhere: w has its filters and channels in the lanes that they have in y and x; only the group's channels are
 * read, and of a block that two groups share each writes its own lanes.
 * Order: the weights of c_step channel blocks serve up to TILES tiles before the next ones are read, and those are
 * prefetched meanwhile, as with ASK_MAPS 1 is what tiles with EDGE >= 0 read, and what all of them overwrite: a
 * network's weights come from memory, and so does a batch.
 * Tile: T pixels of an output row by KV vectors of B filters, accumulators in registers. EDGE >= 0: the input is read
 * where it lies; rows have at least T pixels, and the last tile of one overlaps its neighbour and stores what is new; a
 * tap misses at most EDGE pixels of a tile on either side of the image, and leaves those out. EDGE -1: a
 * tap that misses pixels of a tile reads a copy of its columns, zeros outside the image, and one that misses them all
 * is left out.
 * Index map: a work-item computes the tiles chunk * per_item ... of an image's rows, for one block of filters. The N *
 * chunks chunks come in spans, whose input stays in a core's cache for all filters: group = first chunk of the span *
 * blocks of filters + block * chunks of the span + chunk.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile and KV vectors of filters (T * KV + KV + 1 vector
 * registers); TILES tiles whose sums are kept; SW stride along a row; EDGE -1, 0, 1 or 2; PARTS 0 or 1; ASK_MAPS 0
 * or 1 (default); EPI_ACT act_* (blocked_store.clh). */
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
#include "common/block_channels.clh"
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
#ifndef PARTS
#define PARTS 0
#endif
#ifndef ASK_MAPS
#define ASK_MAPS 1
#endif
#define SOON 16 /* channels from the weights that are read to those on their way to the first cache */
#define LINE_PIXELS (SW > 1 ? 1 : 2) /* of 8 channels, in a cache line */
#define AHEAD 3 /* channel blocks from what a tile reads to what is prefetched, at the end of the next tile's */
#if EDGE >= 0
#define FIRST(ow) min(ow, a->out[2] - T) /* the last tile of a row starts earlier */
#else
#define FIRST(ow) (ow)
#endif

#if PARTS
#define LOW low
#define HIGH high
#define UNROLL_PART _Pragma("unroll 1")
#elif V == 16
#define LOW 0
#define HIGH high
#define UNROLL_PART UNROLL_CHANNELS
#else /* unrolled: the channels that are missing in the last block, too */
#define LOW 0
#define HIGH V
#define UNROLL_PART UNROLL_CHANNELS
#endif

/* One tap on the channels LOW to HIGH - 1 of a block, for the tile's pixels from `left` up to `right` before its end;
 * row: the column under the first pixel. */
#define SOON_OF(v) PREFETCH_SOON(wt + (SOON * KV + (v)) * V)
#define TAP(row, left, right)                                               \
    {                                                                       \
        SRC wt = wp;                                                        \
        UNROLL_PART for (int c = LOW; c < HIGH; c++, wt += KV * V)          \
            MULTIPLY_CHANNEL(row, V *SW, c, wt, left, T - (right), SOON_OF) \
    }

/* Brings near what a tile reads at src AHEAD blocks of channels later, every so many pixels. */
#define PREFETCH_LATER(src, every)                                                                       \
    if (ASK_MAPS) {                                                                                      \
        SRC later = src + (cb + AHEAD < past ? AHEAD * plane : (AHEAD - c_blocks) * plane + T * SW * V); \
        _Pragma("unroll") for (int t = 0; t < T; t += every) PREFETCH(later + t * SW * V);               \
    }

/* Steps of `step` columns from `from` to 0, at least 0. */
#define STEPS(from, step) (max(from, 0) + (step) - 1) / (step)

/* Where a tile's results go: its first filter and row, its first column and the first that is new, the map of the
 * item; of PARTS also the channels, counted from the first block that x has of them, and the filters of the group. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    int k, od, oh, first, ow;
#if PARTS
    int from_c, past_c, from_k;
#endif
    int past_k;
};

/* The row of a tile among those of all depths. */
long FN(row)(const struct FN(target) *to, const struct conv_blocked_args *a)
{
    return (long)to->od * a->out[1] + to->oh;
}

/* Brings near what the epilogue of a tile reads and overwrites. */
void FN(approach)(const struct FN(target) *to, const struct conv_blocked_args *a)
{
    const long map = (long)a->out[0] * a->out[1] * a->out[2] * V;
    const int end = min(T, a->out[2] - to->first);
    long at = to->k / V * map + (FN(row)(to, a) * a->out[2] + to->first) * V;
    for (int v = 0; v < KV && to->k + v * V < a->k; v++, at += map)
        for (int t = 0; t < end; t++) {
            PREFETCH(to->y + at + t * V);
            if (a->epi.add)
                PREFETCH(to->add + at + t * V);
        }
}

#if PARTS
/* Stores v for the group's lanes of the block that begins with filter k; the last group's include those past K. */
void FN(store_part)(FV v, DST y, long i, int k, const struct FN(target) *to, const struct conv_blocked_args *a)
{
    const int from = max(to->from_k - k, 0), past = to->past_k == a->k ? V : min(to->past_k - k, V);
    if (from == 0 && past == V) {
        STOREV(v, y, i);
        return;
    }
    float lanes[V];
    KEEPV(v, lanes, 0);
    for (int j = from; j < past; j++)
        y[i + j] = lanes[j];
}
#define STORE(sum, b, add, y, i, k) FN(store_part)(FN(finish)(sum, b, add, i, a->k - (k), &epi), y, i, k, to, a)
/* Whether all lanes of the block that begins with filter k are the group's to store, as those past K are the last's. */
#define WHOLE_BLOCK(k, a) ((k) >= to->from_k && (to->past_k == (a)->k || (k) + V <= to->past_k))
#else
#define STORE(sum, b, add, y, i, k) FN(store)(sum, b, add, y, i, a->k - (k), &epi)
#define WHOLE_BLOCK(k, a) true
#endif

/* Adds to the sums of one tile (fresh: which are zero) what `c_blocks` blocks of input channels from block cb on give,
 * the first ones at x and w; the last time the results are stored instead. Prefetches `lines` lines from `next` on,
 * with every row. */
void FN(tile)(SRC x, SRC w, float *sums, bool fresh, bool last, int cb, int c_blocks, SRC next, int lines,
              const struct FN(target) *to, const struct conv_blocked_args *a)
{
    const int width = a->in[2], col = to->first * SW - a->pad[2];
    const int front = to->od * a->stride[0] - a->pad[0], top = to->oh * a->stride[1] - a->pad[1];
    const long plane = (long)a->in[0] * a->in[1] * width * V;
#if EDGE < 0
    float copy[((T - 1) * SW + 1) * V] __attribute__((aligned(64)));
#endif
#if V == 8 && EDGE > 0
    const bool inside = col >= 0 && col + (T - 1) * SW + (a->ker[2] - 1) * a->dil[2] < width;
#endif
    if (ASK_MAPS && last)
        FN(approach)(to, a);
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            acc[t][v] = fresh ? (FV)0.0f : LOADV(sums, (v * T + t) * V);
    const int past = cb + c_blocks;
#if V == 8 && EDGE >= 0 && !PARTS
    if (a->ker[0] * a->ker[1] * a->ker[2] == 1 && a->pad[0] + a->pad[1] + a->pad[2] == 0) {
        SRC src = x + (((long)front * a->in[1] + top) * width + col) * V;
        SRC wp = w;
        for (; cb < past; cb++, src += plane) {
            for (int j = 0; j < lines; j++, next += 16)
                PREFETCH(next);
            PREFETCH_LATER(src, LINE_PIXELS)
            TAP(src, 0, 0)
            wp += V * (KV * V);
        }
    }
#endif
    for (; cb < past; cb++, x += plane) {
#if PARTS
        const int low = max(to->from_c - cb * V, 0), high = min(to->past_c - cb * V, V);
        if (high <= 0)
            break; /* other groups have parts of one block more */
#elif V == 16
        const int high = min(a->cg - cb * V, V);
#endif
        for (int td = 0, id = front; td < a->ker[0]; td++, id += a->dil[0])
            for (int r = 0; r < a->ker[1]; r++, w += a->ker[2] * (V * KV * V)) {
                for (int j = 0; j < lines; j++, next += 16)
                    PREFETCH(next);
                const int ih = top + r * a->dil[1];
                if (ih < 0 || ih >= a->in[1] || id < 0 || id >= a->in[0])
                    continue;
                SRC src = x + (((long)id * a->in[1] + ih) * width + col) * V;
                SRC wp = w + LOW * (KV * V);
#if EDGE >= 0
                PREFETCH_LATER(src, 1) /* what lies between is half of the same pair of lines, if it is read */
#endif
#if EDGE < 0
                for (int s = 0, at = col; s < a->ker[2]; s++, at += a->dil[2], src += a->dil[2] * V) {
                    wp = w + (s * V + LOW) * (KV * V);
                    if (at >= 0 && at + (T - 1) * SW < width) {
                        TAP(src, 0, 0)
                    } else if (at + (T - 1) * SW >= 0 && at < width) {
#pragma unroll 1
                        for (int t = 0, column = at; t < T; t++, column += SW) {
                            FV value = 0.0f;
                            if (column >= 0 && column < width)
                                value = LOADV(src, t * SW * V);
                            KEEPV(value, copy, t * SW * V);
                        }
                        TAP(copy, 0, 0)
                    }
                }
#elif EDGE == 0
                for (int s = 0; s < a->ker[2]; s++, src += a->dil[2] * V, wp += V * (KV * V))
                    TAP(src, 0, 0)
#else
#if V == 8
                if (inside) {
                    for (int s = 0; s < a->ker[2]; s++, src += a->dil[2] * V, wp += V * (KV * V))
                        TAP(src, 0, 0)
                    continue;
                }
#endif
                for (int s = 0, at = col; s < a->ker[2]; s++, at += a->dil[2], src += a->dil[2] * V, wp += V * (KV * V))
                    switch (STEPS(-at, SW) - STEPS(at + (T - 1) * SW - width + 1, SW)) {
                    case 0:
                        TAP(src, 0, 0)
                        break;
                    case 1:
                        TAP(src, 1, 0)
                        break;
                    case -1:
                        TAP(src, 0, 1)
                        break;
#if EDGE == 2
                    case 2:
                        TAP(src, 2, 0)
                        break;
                    case -2:
                        TAP(src, 0, 2)
                        break;
#endif
                    }
#endif
            }
    }
    if (!last) {
#pragma unroll
        for (int t = 0; t < T; t++)
#pragma unroll
            for (int v = 0; v < KV; v++)
                KEEPV(acc[t][v], sums, (v * T + t) * V);
        return;
    }
    const long map = (long)a->out[0] * a->out[1] * a->out[2] * V;
    const int begin = to->ow - to->first, end = min(T, a->out[2] - to->first);
    long at = to->k / V * map + (FN(row)(to, a) * a->out[2] + to->first) * V;
    const struct blocked_epilogue epi = a->epi; /* copies: stores of y cannot change them */
    const global float *add = to->add;
    global float *y = to->y;
    const bool whole = begin == 0 && end == T; /* nearly all tiles: nothing to ask for each pixel */
#pragma unroll
    for (int v = 0; v < KV; v++, at += map) {
        const int k = to->k + v * V;
        if (k >= to->past_k)
            continue;
        const FV b = FN(bias)(to->bias, k, a->k, &epi);
        if (whole && WHOLE_BLOCK(k, a)) {
            const int lanes = a->k - k;
#pragma unroll
            for (int t = 0; t < T; t++)
                FN(store)(acc[t][v], b, add, y, at + t * V, lanes, &epi);
        } else {
#pragma unroll
            for (int t = 0; t < T; t++)
                if (t >= begin && t < end)
                    STORE(acc[t][v], b, add, y, at + t * V, k);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_blocked_args *a)
{
    const int blocks = a->k_blocks * a->groups, all = a->n * a->chunks;
    const int from = (int)(group / (ulong)(a->span * blocks)) * a->span, span = min(a->span, all - from);
    const int index = (int)(group - (ulong)from * blocks), block = index / span;
    const int part = from + index % span, n = part / a->chunks, chunk = part % a->chunks;
    const int g = block / a->k_blocks, past_k = (g + 1) * a->kg; /* of groups > 1, whose blocks are full unless PARTS */
    const int kk = g * a->kg / V * V + block % a->k_blocks * (KV * V), c0 = g * a->cg / V;
    const int per_row = (a->out[2] + T - 1) / T;
    const long plane = (long)a->in[0] * a->in[1] * a->in[2] * V;
    const long rows_of_taps = a->ker[0] * a->ker[1], taps = rows_of_taps * a->ker[2] * (V * KV * V);
    SRC xn = x + n * a->src_n + c0 * plane;
    SRC wp = w + block * a->c_blocks * taps;
    const int end = min((chunk + 1) * a->per_item, per_row * a->out[1] * a->out[0]);
    struct FN(target) to = {.bias = bias, .add = add + n * a->add_n, .y = y + n * a->dst_n, .k = kk, .past_k = past_k};
#if PARTS
    to.from_c = g * a->cg - c0 * V;
    to.past_c = to.from_c + a->cg;
    to.from_k = past_k - a->kg;
#endif
    float sums[TILES][T * KV * V] __attribute__((aligned(64)));
    for (int begin = chunk * a->per_item; begin < end; begin += TILES) {
        const int count = min(TILES, end - begin);
        for (int cb = 0; cb < a->c_blocks; cb += a->c_step) {
            const int step = min(a->c_step, a->c_blocks - cb), rows = count * step * (int)rows_of_taps;
            const bool more =
                cb + step < a->c_blocks || (chunk == a->chunks - 1 && block < a->k_blocks * a->groups - 1);
            const int lines = more ? ((int)(step * taps / 16) + rows - 1) / rows : 0;
            for (int i = 0; i < count; i++) {
                const int row = (begin + i) / per_row;
                to.od = row / a->out[1];
                to.oh = row % a->out[1];
                to.ow = (begin + i) % per_row * T;
                to.first = FIRST(to.ow);
                FN(tile)(xn + cb * plane, wp + cb * taps, sums[i], cb == 0, cb + step == a->c_blocks, cb, step,
                         wp + (cb + step) * taps + (long)i * step * rows_of_taps * lines * 16, lines, &to, a);
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
