/* conv_blocked.cl: 2-D convolution of maps with channels in blocks, for CPU devices: a work-item computes register tiles.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][g*C/g + c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s] + bias[k] + add )
 *
 * Layouts: x, y, add [ceil(C/B)][H][W][B] with batch strides; w packed by conv_pack.cl:
 * [groups][K/groups/(KV*B)][C/groups/B][R][S][B][KV*B], zeros for missing filters and channels. C/groups and K/groups are
 * multiples of B when there are groups; lanes of y past K are written as zeros.
 * Order: the weights of c_step channel blocks serve up to TILES tiles before the next ones are read, and those are prefetched
 * meanwhile: a network's weights come from memory.
 * Tile: T pixels of an output row by KV vectors of B filters, accumulators in registers. DIRECT: the tile's input is read
 * where it lies (no padding, rows of at least T pixels: the last tile of a row overlaps its neighbour and stores what is
 * new). Otherwise the columns that the taps of a row need are first copied, zeros outside the image, to a private row.
 * Index map: group = (block of filters * N + n) * chunks + chunk; a work-item computes the tiles chunk * per_item ... of the
 * output's rows, for one block of filters.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile and KV vectors of filters (T * KV + KV + 1 vector registers);
 * TILES tiles whose sums are kept; SW stride along a row; DIRECT 0 or 1; ROW columns of the private row; EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#include "vec.clh"
#ifndef FN
#define FN(x) conv_blocked_##x
#endif
#include "activation_vec.clh"
#include "blocked_store.clh"
#include "prefetch.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef SW
#define SW 1
#endif
#ifndef DIRECT
#define DIRECT 0
#endif
#ifndef TILES
#define TILES 8
#endif
#ifndef ROW
#define ROW 128
#endif
#if DIRECT
#define FIRST(ow) min(ow, a->out[1] - T) /* the last tile of a row starts earlier */
#else
#define FIRST(ow) (ow)
#endif

/* Adds to the sums of one tile (fresh: which are zero) what `c_blocks` blocks of input channels give, the first ones at x and
 * w. Prefetches `lines` lines from `next` on, with every row. */
void FN(tile)(SRC x, SRC w, float *sums, bool fresh, int c_blocks, int oh, int first, SRC next, int lines,
              const struct conv_blocked_args *a)
{
    const long plane = (long)a->in[0] * a->in[1] * V;
    const int col = first * SW - a->pad[1];
#if !DIRECT
    const int cols = (T - 1) * SW + (a->ker[1] - 1) * a->dil[1] + 1;
    const int left = min(max(-col, 0), cols), right = max(left, min(cols, a->in[1] - col)); /* [left, right) exist */
    float copy[ROW * V] __attribute__((aligned(64)));
    for (int j = 0; j < left; j++)
        STOREV((FV)0.0f, copy, j * V);
    for (int j = right; j < cols; j++)
        STOREV((FV)0.0f, copy, j * V);
#endif
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
            const int ih = oh * a->stride - a->pad[0] + r * a->dil[0];
            if (ih < 0 || ih >= a->in[0])
                continue;
            SRC src = x + ((long)ih * a->in[1] + col) * V;
#if DIRECT
            SRC row = src;
#else
            for (int j = left; j < right; j++)
                STOREV(LOADV(src, j * V), copy, j * V);
            const float *row = copy;
#endif
            SRC wp = w;
            for (int s = 0; s < a->ker[1]; s++, row += a->dil[1] * V)
#pragma unroll 1
                for (int c = 0; c < V; c++, wp += KV * V) {
                    FV f[KV];
#pragma unroll
                    for (int v = 0; v < KV; v++)
                        f[v] = LOADV(wp, v * V);
#pragma unroll
                    for (int t = 0; t < T; t++) {
                        const FV value = row[t * SW * V + c];
#pragma unroll
                        for (int v = 0; v < KV; v++)
                            acc[t][v] = fma(value, f[v], acc[t][v]);
                    }
                }
        }
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int v = 0; v < KV; v++)
            STOREV(acc[t][v], sums, (v * T + t) * V);
}

/* The epilogue of a tile, for its columns from ow on; kk is the first filter. */
void FN(finish)(const float *sums, SRC bias, SRC add, DST y, int kk, int oh, int first, int ow,
                const struct conv_blocked_args *a)
{
    const long plane = (long)a->out[0] * a->out[1] * V;
    const int end = min(T, a->out[1] - first), past = (kk / a->kg + 1) * a->kg; /* of the group's filters */
    for (int v = 0, k = kk; v < KV && k < past; v++, k += V) {
        const long i = k / V * plane + ((long)oh * a->out[1] + first) * V;
        const FV b = FN(bias)(bias, k, a->k);
        for (int t = ow - first; t < end; t++)
            FN(store)(LOADV(sums, (v * T + t) * V), b, add, y, i + t * V, a->k - k, a->p0, a->p1);
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_blocked_args *a)
{
    const int chunk = (int)(group % a->chunks);
    const ulong rest = group / a->chunks;
    const int n = (int)(rest % a->n), block = (int)(rest / a->n);
    const int g = block / a->k_blocks; /* of groups > 1, whose blocks are full */
    const int kk = g * a->kg + block % a->k_blocks * (KV * V);
    const int per_row = (a->out[1] + T - 1) / T;
    const long plane = (long)a->in[0] * a->in[1] * V, taps = (long)a->ker[0] * a->ker[1] * (V * KV * V);
    SRC xn = x + n * a->src_n + g * a->c_blocks * plane;
    SRC wp = w + block * a->c_blocks * taps;
    const int end = min((chunk + 1) * a->per_item, per_row * a->out[0]);
    float sums[TILES][T * KV * V] __attribute__((aligned(64)));
    for (int begin = chunk * a->per_item; begin < end; begin += TILES) {
        const int count = min(TILES, end - begin);
        for (int cb = 0; cb < a->c_blocks; cb += a->c_step) {
            const int step = min(a->c_step, a->c_blocks - cb), rows = count * step * a->ker[0];
            const bool more = cb + step < a->c_blocks || (chunk == a->chunks - 1 && block < a->k_blocks * a->groups - 1);
            const int lines = more ? ((int)(step * taps / 16) + rows - 1) / rows : 0;
            for (int i = 0; i < count; i++) {
                const int oh = (begin + i) / per_row, ow = (begin + i) % per_row * T;
                FN(tile)(xn + cb * plane, wp + cb * taps, sums[i], cb == 0, step, oh, FIRST(ow),
                         wp + (cb + step) * taps + (long)i * step * a->ker[0] * lines * 16, lines, a);
            }
        }
        for (int i = 0; i < count; i++) {
            const int oh = (begin + i) / per_row, ow = (begin + i) % per_row * T;
            FN(finish)(sums[i], bias, add + n * a->add_n, y + n * a->dst_n, kk, oh, FIRST(ow), ow, a);
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
