/* conv_transpose_winograd_strided.cl: transposed convolution at stride 2 with 3x3 and 4x4 filters by minimal filtering
 * of its phases, for CPU devices.
 *
 *   y = act( A^T [ sum_c (G w[c][k] G^T) * (B^T x[c] B) ] A + bias[k] + add ), element-wise products, 4x4 pixels of a
 *   phase
 *
 * The pixels of a phase (conv_phases.clh) are a convolution at stride 1 with two taps or one in each dimension: F(4, 2)
 * takes 5 products instead of 8, and one tap takes the 4 that there are, without a transform. With 4x4 filters the four
 * phases of a tile take 100 products instead of 256, with 3x3 ones 81 instead of 144. It is the transpose of
 * conv_winograd_strided.cl, whose source has the papers.
 * x, y, add [ceil(C/V)][H][W][V] with batch strides; w as conv_transpose_pack.cl packs it: [groups][blocks of KV*V
 * filters][R][S][C/groups rounded up to V][KV*V]. C/groups and K/groups are multiples of V when there are groups; lanes
 * of y past K are written as zeros.
 * Index map: a work-item computes up to FILTER_BLOCKS blocks of a group's filters for per_item blocks of T tiles of a
 * phase, at most TILE_BLOCKS, CHANNEL_BLOCKS blocks of channels at a time; all that it uses again lies in private
 * memory and stays in the core's cache. Tiles of a phase are numbered over the batch, rows and columns. group = ((group
 * of filters * ceil(k_blocks / FILTER_BLOCKS) + part of its blocks) * phases + phase) * chunks + range of tiles.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T tiles and KV vectors of filters of a register tile (T * KV + KV + 1 vector
 * registers); TILE_BLOCKS, FILTER_BLOCKS and CHANNEL_BLOCKS, which bound the private memory; EPI_ACT act_*
 * (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv/conv_phases_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_transpose_winograd_strided_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "conv/conv_phases.clh"
#include "conv_cpu/winograd_sums.clh"
#ifndef CHANNEL_BLOCKS
#define CHANNEL_BLOCKS 4
#endif

/* What stands in a transform's place where a dimension has one tap. */
#define SINGLE(y, m)                                               \
    do {                                                           \
        _Pragma("unroll") for (int i = 0; i < M; i++) y(i) = m(i); \
    } while (0)

/* A phase in both dimensions, and its tiles in an image. */
struct FN(tiles) {
    struct FN(phase) rows, cols;
    int high, wide;
};

/* Products of a tile along a dimension, and pixels of the input under it: more than M with two taps. */
int FN(points)(const struct FN(phase) *f)
{
    return M - 1 + f->taps;
}

/* v: the tile's vector of the first of A x A values, which lie V_STEP apart; x: of an image and block of channels. */
void FN(transform)(SRC x, float *v, int top, int left, const struct FN(tiles) *f, const struct conv_phases *a)
{
    float half_way[A * A * V] __attribute__((aligned(64)));
    const int high = FN(points)(&f->rows), wide = FN(points)(&f->cols);
    for (int c = 0; c < wide; c++) { /* down each column */
        FV d[A], e[A];
        const bool there = left + c >= 0 && left + c < a->in[1];
#pragma unroll
        for (int r = 0; r < A; r++) {
            d[r] = 0.0f;
            if (there && r < high && top + r >= 0 && top + r < a->in[0])
                d[r] = LOADV(x, ((long)(top + r) * a->in[1] + left + c) * V);
            e[r] = d[r];
        }
#define FROM(i) d[i]
#define TO(i) e[i]
        if (high == A)
            B_T(TO, FROM);
#undef FROM
#pragma unroll
        for (int r = 0; r < A; r++)
            KEEPV(e[r], half_way, (r * A + c) * V);
    }
    for (int r = 0; r < high; r++) {
        FV e[A];
#define FROM(i) LOADV(half_way, (r * A + (i)) * V)
        if (wide == A)
            B_T(TO, FROM);
        else
            SINGLE(TO, FROM);
#undef FROM
#undef TO
        for (int c = 0; c < wide; c++)
            KEEPV(e[c], v, (r * A + c) * V_STEP);
    }
}

/* A block of channels of the T tiles from `first` on, of `tiles`. */
void FN(inputs)(SRC x, float *v, int first, int tiles, const struct FN(tiles) *f,
                const struct conv_transpose_blocked_args *a)
{
    const int per_image = f->high * f->wide;
    for (int t = 0; t < T; t++) {
        const int tile = min(first + t, tiles - 1), at = tile % per_image;
        const int top = at / f->wide * M + f->rows.from - (f->rows.taps - 1),
                  left = at % f->wide * M + f->cols.from - (f->cols.taps - 1);
        FN(transform)(x + tile / per_image * a->src_n, v + t * V, top, left, f, &a->phases);
    }
}

/* Row i of the transformed filters of a block of channels: of the taps of a row, or of two in the proportion of the
 * points 0, 1, -1, 2 and infinity. w: the first tap; down and right: floats to the other taps. */
void FN(filters)(SRC w, float *u, int i, long down, long right, const struct FN(tiles) *f)
{
    const float last[A] = {0.0f, 1.0f, -1.0f, 2.0f, 1.0f};
    const bool two_rows = f->rows.taps == 2, two = f->cols.taps == 2;
    const float near = two_rows ? last[i] : 1.0f, far = i < M ? 1.0f : 0.0f;
    for (int at = 0; at < V * KV * V; at += V) {
        FV tap[2], e[A];
#pragma unroll
        for (int s = 0; s < 2; s++) { /* the first tap meets the pixel that comes last */
            SRC ws = w + at + (two ? 1 - s : 0) * right;
            tap[s] = near * LOADV(ws, 0);
            if (two_rows)
                tap[s] = fma(far, LOADV(ws, down), tap[s]);
        }
        if (two) {
#define FROM(i) tap[i]
#define TO(i) e[i]
            G_(TO, FROM);
#undef FROM
#undef TO
#pragma unroll
            for (int s = 0; s < A; s++)
                KEEPV(e[s], u, s * U_STEP + at);
        } else
            KEEPV(tap[0], u, at);
    }
}

/* A register tile of one product of the tiles, for `blocks` blocks of channels by themselves before they are added to
 * m: that halves the error. */
void FN(product)(const float *v, const float *u, float *m, bool fresh, int blocks)
{
    FV acc[T][KV];
    CLEAR_SUMS(acc);
    for (int cb = 0; cb < blocks; cb++, v += A * A * V_STEP, u += A * U_STEP)
        ADD_CHANNELS(acc, v, u)
    KEEP_SUMS(acc, m, fresh);
}

/* The pixels of a tile, out[M * M], from its products, `step` elements apart in m. */
void FN(inverse)(const float *m, int step, float *out, const struct FN(tiles) *f)
{
    FV n[M][A];
    const bool two_rows = f->rows.taps == 2, two = f->cols.taps == 2;
#pragma unroll
    for (int c = 0; c < A; c++) {
#define IN(i) LOADV(m, ((i)*A + c) * step)
#define OUT(i) n[i][c]
        if (c < M || two) {
            if (two_rows)
                A_T(OUT, IN);
            else
                SINGLE(OUT, IN);
        }
#undef IN
#undef OUT
    }
#pragma unroll
    for (int r = 0; r < M; r++) {
        FV y[M];
#define IN(i) n[r][i]
#define OUT(i) y[i]
        if (two)
            A_T(OUT, IN);
        else
            SINGLE(OUT, IN);
#undef IN
#undef OUT
#pragma unroll
        for (int c = 0; c < M; c++)
            KEEPV(y[c], out, (r * M + c) * V);
    }
}

/* Pixels of the tiles from `first` on, of `tiles`, for the filters from k on, up to `past`. */
void FN(pixels)(const float *m, SRC bias, SRC add, DST y, int k, int past, int first, int tiles,
                const struct FN(tiles) *f, const struct conv_transpose_blocked_args *a)
{
    const struct conv_phases *p = &a->phases;
    const long plane = (long)p->out[0] * p->out[1] * V;
    const int per_image = f->high * f->wide;
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    for (int kv = 0; kv < KV && k < past; kv++, k += V) {
        const FV b = FN(bias)(bias, k, a->k, &epi) + 0.0f; /* never -0, which would show the sign of a sum of zeros */
        for (int t = 0; t < T && first + t < tiles; t++) {
            const int n = (first + t) / per_image, at = (first + t) % per_image;
            const int row = at / f->wide * M, col = at % f->wide * M;
            float out[M * M * V] __attribute__((aligned(64)));
            FN(inverse)(m + (kv * T + t) * V, KV * T * V, out, f);
            for (int r = 0; r < min(M, f->rows.outputs - row); r++)
                for (int c = 0; c < min(M, f->cols.outputs - col); c++) {
                    const int h = f->rows.q + (row + r) * p->stride[0], w = f->cols.q + (col + c) * p->stride[1];
                    FN(store)(LOADV(out, (r * M + c) * V), b, add + n * a->add_n, y + n * a->dst_n,
                              k / V * plane + ((long)h * p->out[1] + w) * V, a->k - k, &epi);
                }
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_transpose_blocked_args *a)
{
    const struct conv_phases *p = &a->phases;
    const int range = (int)(group % a->chunks), part = (int)(group / a->chunks);
    const int phases = p->count[0] * p->count[1], phase = part % phases,
              parts = (a->k_blocks + FILTER_BLOCKS - 1) / FILTER_BLOCKS;
    const int g = part / phases / parts, low = part / phases % parts * FILTER_BLOCKS,
              count = min(FILTER_BLOCKS, a->k_blocks - low), block = g * a->k_blocks + low;
    struct FN(tiles) f = {FN(phase_of)(phase / p->count[1], 0, p), FN(phase_of)(phase % p->count[1], 1, p), 0, 0};
    f.high = (f.rows.outputs + M - 1) / M;
    f.wide = (f.cols.outputs + M - 1) / M;
    const int first = range * a->per_item * T, tiles = min(first + a->per_item * T, a->n * f.high * f.wide);
    const int tile_blocks = (tiles - first + T - 1) / T;
    const int high = FN(points)(&f.rows), wide = FN(points)(&f.cols);
    const long plane = (long)p->in[0] * p->in[1] * V, tap = (long)a->c_blocks * (V * KV * V);
    const long down = p->every[0] * p->ker[1] * tap, right = p->every[1] * tap, filter = p->ker[0] * p->ker[1] * tap;
    float v[TILE_BLOCKS][CHANNEL_BLOCKS][A * A * V_STEP] __attribute__((aligned(64)));
    float u[CHANNEL_BLOCKS][A * U_STEP] __attribute__((aligned(64)));
    float m[FILTER_BLOCKS * TILE_BLOCKS][A * A][KV * T * V] __attribute__((aligned(64)));
    x += g * a->c_blocks * plane;
    w += block * filter + (f.rows.first * p->ker[1] + f.cols.first) * tap;
    for (int cb = 0; cb < a->c_blocks && tile_blocks > 0; cb += CHANNEL_BLOCKS) {
        const int blocks = min(CHANNEL_BLOCKS, a->c_blocks - cb);
        for (int t = 0; t < tile_blocks; t++)
            for (int b = 0; b < blocks; b++)
                FN(inputs)(x + (cb + b) * plane, v[t][b], first + t * T, tiles, &f, a);
        for (int k = 0; k < count; k++)
            for (int i = 0; i < high; i++) {
                if (i == 0 || f.rows.taps == 2)
                    for (int b = 0; b < blocks; b++)
                        FN(filters)(w + k * filter + (cb + b) * (V * KV * V), u[b], i, down, right, &f);
                for (int t = 0; t < tile_blocks; t++)
                    for (int j = 0; j < wide; j++)
                        FN(product)(v[t][0] + (i * A + j) * V_STEP, u[0] + (f.cols.taps == 2 ? j : 0) * U_STEP,
                                    m[k * TILE_BLOCKS + t][i * A + j], cb == 0, blocks);
            }
    }
    for (int k = 0; k < count; k++)
        for (int t = 0; t < tile_blocks; t++)
            FN(pixels)(m[k * TILE_BLOCKS + t][0], bias, add, y, g * a->kg + (low + k) * (KV * V), (g + 1) * a->kg,
                       first + t * T, tiles, &f, a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_transpose_blocked_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
