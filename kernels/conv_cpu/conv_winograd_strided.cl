/* conv_winograd_strided.cl: 3x3 and 4x4 convolution at stride 2 by minimal filtering of its phases, for CPU devices.
 *
 *   y = act( A^T [ sum_c sum_phases (G w[k][c] G'^T) * (B^T x[c] B') ] A + bias[k] + add ), element-wise products, a
 *   tile of 4x4 pixels
 *
 * In one dimension y[i] = w0 x[2i] + w2 x[2i + 2] + w1 x[2i + 1]: two taps on the even pixels and one on the odd ones,
 * F(4, 2) and F(4, 1). Both take the points 0, 1, -1 and 2, and F(4, 2) infinity besides, so their products have one
 * inverse transform and are added up as those of channels are: 9 products instead of 12, 81 instead of 144 for a tile.
 * Filters of 4x4 have two taps on the odd pixels as well, so both are F(4, 2): 100 products instead of 256.
 * (Toom-Cook's points as in Lavin and Gray 2016; the phases as in Yepez and Ko, Stride 2 1-D, 2-D, and 3-D Winograd for
 * convolutional neural networks, 2020.) x, y, add [ceil(C/V)][H][W][V] with batch strides. C/groups and K/groups are
 * multiples of V when there are groups; lanes of y past K are written as zeros. w as conv_pack.cl packs it: [blocks of
 * KV*V filters][C/groups][KER*KER][KV*V].
 * The 5x5 sums of a tile have up to four products each: even and even, even and odd, odd and even, odd and odd rows and
 * columns of the input, with 3x3 filters without odd ones at infinity. Their odd taps are not transformed, so such a
 * filter has 36 values for these 81.
 * Index map: a work-item computes up to FILTER_BLOCKS blocks of a group's filters for t_step tiles, at most TILE_BLOCKS
 * blocks of T, a channel block at a time; all that it uses again lies in private memory and stays in the core's cache.
 * Tiles are numbered over the batch, rows and columns. group = (first block of filters / FILTER_BLOCKS) * ranges of
 * tiles + range.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; KER side of a filter, 3 or 4; T tiles and KV vectors of filters of a
 * register tile (T * KV + KV + 1 vector registers); TILE_BLOCKS and FILTER_BLOCKS, whose product bounds the sums in
 * private memory; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) conv_winograd_strided_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/prefetch.clh"
#include "conv_cpu/winograd_sums.clh"
#include "conv_cpu/winograd_pixels.clh"
#ifndef KER
#define KER 3
#endif
#define SPAN (KER + 6) /* rows and columns of the input under a tile, and of its values */
/* of transformed rows and columns: 0 to 4 are of the even ones, the others of the odd ones */
#define ODD A
#define ODD_SUMS (SPAN - A) /* sums of a row or column that odd ones take part in */
#if KER == 3
#define B_T_ODD B_T_FINITE
#define ODD_TAPS 1 /* values of a row of filters for odd columns */
#else
#define B_T_ODD B_T
#define ODD_TAPS A
#endif
#define ROW_VALUES (A + ODD_TAPS)
#define PLACES (SPAN * SPAN)          /* values of a tile */
#define TAPS (KER * KER * V * KV * V) /* floats of raw filters for a block of channels */

/* Values of a tile in one dimension: out(0 .. 4) of the even ones of in(0 .. SPAN - 1), the others of the odd ones. */
#define EVEN_IN(i) FROM(2 * (i))
#define ODD_IN(i) FROM(2 * (i) + 1)
#define ODD_OUT(i) TO(ODD + (i))

/* v: the tile's vector of the first of SPAN x SPAN values, which lie V_STEP apart. */
void FN(transform)(SRC x, float *v, int top, int left, const struct conv_winograd_args *a)
{
    float half_way[SPAN * SPAN * V] __attribute__((aligned(64)));
    const bool inside = top >= 0 && top + SPAN <= a->in[0] && left >= 0 && left + SPAN <= a->in[1];
    const long pitch = (long)a->in[1] * V;
    x += top * pitch + left * V;
    for (int c = 0; c < SPAN; c++, x += V) { /* down each column */
        FV d[SPAN], e[SPAN];
        const bool there = left + c >= 0 && left + c < a->in[1];
        if (inside) {
#pragma unroll
            for (int r = 0; r < SPAN; r++)
                d[r] = LOADV(x, r * pitch);
        } else {
#pragma unroll
            for (int r = 0; r < SPAN; r++) {
                d[r] = 0.0f;
                if (there && top + r >= 0 && top + r < a->in[0])
                    d[r] = LOADV(x, r * pitch);
            }
        }
#define FROM(i) d[i]
#define TO(i) e[i]
        B_T(TO, EVEN_IN);
        B_T_ODD(ODD_OUT, ODD_IN);
#undef FROM
#undef TO
#pragma unroll
        for (int r = 0; r < SPAN; r++)
            KEEPV(e[r], half_way, (r * SPAN + c) * V);
    }
#pragma unroll
    for (int r = 0; r < SPAN; r++) {
        FV out[SPAN];
#define FROM(i) LOADV(half_way, (r * SPAN + (i)) * V)
#define TO(i) out[i]
        B_T(TO, EVEN_IN);
        B_T_ODD(ODD_OUT, ODD_IN);
#undef FROM
#undef TO
#pragma unroll
        for (int c = 0; c < SPAN; c++)
            KEEPV(out[c], v, (r * SPAN + c) * V_STEP);
    }
}

/* Brings near what inputs() will read for `count` of its T tiles, from the one numbered `from` on. */
void FN(approach)(SRC x, int first, int from, int count, const struct conv_winograd_args *a)
{
    const int per_image = a->tiles_high * a->tiles_wide;
    for (int t = from; t < min(from + count, T); t++) {
        const int tile = min(first + t, a->tiles - 1);
        const int n = tile / per_image, ty = tile % per_image / a->tiles_wide, tx = tile % a->tiles_wide;
        /* its neighbour has the first column */
        const int top = ty * 2 * M - a->pad[0], left = tx * 2 * M - a->pad[1] + 1;
        for (int h = max(top, 0); h < min(top + SPAN, a->in[0]); h++)
            for (int c = max(left, 0); c < min(left + SPAN - 1, a->in[1]); c++)
                PREFETCH(x + n * a->src_n + ((long)h * a->in[1] + c) * V);
    }
}

/* A block of channels, of T tiles from `first` on. */
void FN(inputs)(SRC x, float *v, int first, const struct conv_winograd_args *a)
{
    const int per_image = a->tiles_high * a->tiles_wide;
    for (int t = 0; t < T; t++) {
        const int tile = min(first + t, a->tiles - 1);
        const int n = tile / per_image, ty = tile % per_image / a->tiles_wide, tx = tile % a->tiles_wide;
        FN(transform)(x + n * a->src_n, v + t * V, ty * 2 * M - a->pad[0], tx * 2 * M - a->pad[1], a);
    }
}

/* A row of a block's transformed filters for V channels, zeros past the first `channels`: of `first` times the taps of
 * row `row` plus, where `last` is not 0, `last` times those two rows below. Values 0 to 4 are for even columns, the
 * others for odd ones. */
void FN(filters)(SRC w, float *u, int channels, int row, float first, float last)
{
    for (int c = 0; c < V; c++, w += KER * KER * KV * V, u += KV * V)
#pragma unroll
        for (int k = 0; k < KV; k++) {
            FV taps[KER], out[A];
#pragma unroll
            for (int s = 0; s < KER; s++) {
                taps[s] = 0.0f;
                if (c < channels) {
                    taps[s] = first * LOADV(w, ((row * KER + s) * KV + k) * V);
                    if (last != 0.0f)
                        taps[s] = fma(last, LOADV(w, (((row + 2) * KER + s) * KV + k) * V), taps[s]);
                }
            }
#define EVEN_TAP(i) taps[2 * (i)]
#define ODD_TAP(i) taps[2 * (i) + 1]
#define TO(i) out[i]
            G_(TO, EVEN_TAP);
#pragma unroll
            for (int s = 0; s < A; s++)
                KEEPV(out[s], u, s * U_STEP + k * V);
#if KER == 3
            out[0] = ODD_TAP(0);
#else
            G_(TO, ODD_TAP);
#endif
#undef EVEN_TAP
#undef ODD_TAP
#undef TO
#pragma unroll
            for (int s = 0; s < ODD_TAPS; s++)
                KEEPV(out[s], u, (A + s) * U_STEP + k * V);
        }
}

/* A register tile of sum (i, j), for a block of channels by itself before it is added to m: that halves the error.
 * even_v is of its even and even product; rows, of filters: even row i, and the odd one. */
void FN(product)(const float *even_v, const float *rows, float *m, bool fresh, int i, int j)
{
    const int columns = j < ODD_SUMS ? 2 : 1, phases = i < ODD_SUMS ? 2 * columns : columns;
    FV acc[T][KV];
    CLEAR_SUMS(acc);
    for (int phase = 0; phase < phases; phase++) {
        const int down = phase >= columns, right = phase - down * columns;
        const float *v = even_v + (down * ODD * SPAN + right * ODD) * V_STEP;
        const float *u = rows + (down * ROW_VALUES + (right ? A + j % ODD_TAPS : j)) * U_STEP;
        ADD_CHANNELS(acc, v, u)
    }
    KEEP_SUMS(acc, m, fresh);
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_winograd_args *a)
{
    const int ranges = (a->tiles + a->t_step - 1) / a->t_step,
              chunks = (a->k_blocks + FILTER_BLOCKS - 1) / FILTER_BLOCKS;
    const int chunk = (int)(group / ranges), g = chunk / chunks, first = (int)(group % ranges) * a->t_step;
    const int low = chunk % chunks * FILTER_BLOCKS, count = min(FILTER_BLOCKS, a->k_blocks - low),
              block = g * a->k_blocks + low;
    const int tile_blocks = (min(a->t_step, a->tiles - first) + T - 1) / T;
    const int each = (T + count * A - 1) / (count * A), lines = (TAPS / 16 + A * tile_blocks - 1) / (A * tile_blocks);
    const long plane = (long)a->in[0] * a->in[1] * V, filter = (long)a->cg * (KER * KER * KV * V);
    const float last[A] = {0.0f, 1.0f, -1.0f, 2.0f, 1.0f}; /* the points; at infinity the last tap alone counts */
    float v[TILE_BLOCKS][PLACES * V_STEP] __attribute__((aligned(64)));
    float u[2 * ROW_VALUES][U_STEP] __attribute__((aligned(64)));
    float m[FILTER_BLOCKS * TILE_BLOCKS][A * A][KV * T * V] __attribute__((aligned(64)));
    x += g * a->c_blocks * plane;
    w += block * filter;
    for (int cb = 0; cb < a->c_blocks; cb++, x += plane, w += TAPS) {
        for (int t = 0; t < tile_blocks; t++)
            FN(inputs)(x, v[t], first + t * T, a);
        for (int f = 0; f < count; f++) {
            SRC wf = w + f * filter;
            SRC next = f + 1 < count ? wf + filter : w + TAPS;
            if (KER == 3)
                FN(filters)(wf, u[ROW_VALUES], a->cg - cb * V, 1, 1.0f, 0.0f);
            for (int i = 0; i < A; i++) {
                FN(filters)(wf, u[0], a->cg - cb * V, 0, i < M, last[i]);
                if (KER == 4)
                    FN(filters)(wf, u[ROW_VALUES], a->cg - cb * V, 1, i < M, last[i]);
                for (int t = 0; t < tile_blocks; t++) {
                    if (cb + 1 < a->c_blocks)
                        FN(approach)(x + plane, first + t * T, (f * A + i) * each, each, a);
                    for (int line = 0; line < lines; line++, next += 16)
                        PREFETCH(next);
                    for (int j = 0; j < A; j++)
                        FN(product)(v[t] + (i * SPAN + j) * V_STEP, u[0], m[f * TILE_BLOCKS + t][i * A + j], cb == 0, i,
                                    j);
                }
            }
        }
    }
    for (int f = 0; f < count; f++)
        for (int t = 0; t < tile_blocks; t++)
            FN(pixels)(m[f * TILE_BLOCKS + t][0], bias, add, y, block + f, first + t * T, a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_winograd_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
