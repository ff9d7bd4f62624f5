/* conv_winograd.cl: RxR convolution at stride 1 by Winograd's minimal filtering F(MxM, RxR), for CPU devices.
 *
 *   y = act( A^T [ sum_c (G w[k][c] G^T) * (B^T x[c] B) ] A + bias[k] + add ),  element-wise products, a tile of M x M
 *   pixels
 *
 * (Lavin and Gray 2016; the matrices are in winograd.clh.) x, y, add [ceil(C/V)][H][W][V] with batch strides. C/groups
 * and K/groups are multiples of V when there are groups; lanes of y past K are written as zeros.
 *   pack   u [blocks of KV*V filters][A*A][C/groups up to whole blocks][KV*V] = G w G^T, zeros for missing filters and
 *          channels. Group = (block * channels + c) of one channel of a block of filters.
 *   in     v [blocks of T tiles][groups][A*A][C/groups/V][T][V] = B^T x B, V floats between the A*A. Group = (block of
 *          tiles * groups + group) * pieces + piece of c_step channel blocks.
 *   main   the products and the inverse transform; a register tile holds T tiles by KV vectors of filters of one of the
 *          A*A products. Group = (block of filters * blocks of tiles + block of tiles); or, with a t_step, both: group
 *          = (group * ranges + range of t_step tiles). The v of T tiles then lies in a part of the work-item's own and
 *          stays in the cache for all filters of the group.
 *          With a pool, pixels are finished in private memory and y has the maximum or the mean of windows of 2x2 side
 *          by side, which tiles hold whole, since M is even; NaN wins a maximum.
 *   fresh  as main, for up to TILE_BLOCKS blocks of tiles and with filters as conv_pack.cl packs them
 *          ([C/groups][R*R][KV*V] a block), transformed here: R*R for A*A of the bytes, which counts when there are few
 *          tiles. Group = block of filters.
 * Tiles are numbered over the batch, rows and columns; `in` and `main` treat `tiles` of them from first_tile on.
 * Work-group: WG = 1. Local memory: none.
 * Defines: M and R 4 and 3, 2 and 3, or 2 and 5; V channels of a block, 16 or 8; T tiles and KV vectors of filters of a
 * register tile (T * KV + KV + 1 vector registers), which `in` takes at run time; TILE_BLOCKS of fresh; EPI_ACT act_*
 * (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#ifndef M
#define M 4
#endif
#ifndef R
#define R 3
#endif
#include "common/clcnn.clh"
#include "conv_cpu/conv_cpu_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_winograd_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "common/prefetch.clh"
#include "conv/winograd.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef TILE_BLOCKS
#define TILE_BLOCKS 1
#endif
#include "conv_cpu/winograd_pixels.clh"
/* floats between what is read of u and what is prefetched: the filters of a network come from memory */
#define AHEAD 1024
#define CB (4 / KV)                 /* blocks of channels whose transformed filters stay in a core's cache */
#define PITCH (CB * V * KV * V + V) /* floats; no power of two, which would put all A*A in one set of the cache */

/* V filters of a channel, tap i at taps[i * step]; out(r, s) is a macro that takes u[r][s]. */
#define FILTERS(tap, put)                                                        \
    do {                                                                         \
        FV half_way[A][R];                                                       \
        _Pragma("unroll") for (int s = 0; s < R; s++)                            \
        {                                                                        \
            G_(HALF_OUT, tap);                                                   \
        }                                                                        \
        _Pragma("unroll") for (int r = 0; r < A; r++)                            \
        {                                                                        \
            FV out[A];                                                           \
            G_(FILTER_OUT, HALF_IN);                                             \
            _Pragma("unroll") for (int s = 0; s < A; s++) put(out[s], r *A + s); \
        }                                                                        \
    } while (0)
#define HALF_OUT(i) half_way[i][s]
#define HALF_IN(i) half_way[r][i]
#define FILTER_OUT(i) out[i]

void FN(pack_body)(ulong group, SRC w, DST u, const struct conv_winograd_args *a)
{
    const int channels = a->c_blocks * V, c = (int)(group % channels), block = (int)(group / channels);
    const int k0 = block % a->k_blocks * (KV * V), g = block / a->k_blocks;
    for (int v = 0; v < KV; v++) {
        float taps[R * R][V];
        for (int j = 0; j < V; j++) {
            const int k = k0 + v * V + j;
            const bool there = k < a->kg && c < a->cg;
            for (int i = 0; i < R * R; i++)
                taps[i][j] = there ? w[(g * a->kg + k) * a->w_k + c * (R * R) + i] : 0.0f;
        }
#define TAP(i) LOADV(taps[(i) * R + s], 0)
#define PUT(value, i) STOREV(value, u, (((long)block * (A * A) + (i)) * channels + c) * (KV * V) + v * V)
        FILTERS(TAP, PUT);
#undef TAP
#undef PUT
    }
}

/* Elements of one of the A*A matrices of v: no power of two either. */
long FN(v_step)(int t, const struct conv_winograd_args *a)
{
    return (long)a->c_blocks * (t * V) + V;
}

/* Elements of v for a block of t tiles and a group. */
long FN(part)(int t, const struct conv_winograd_args *a)
{
    return A * A * FN(v_step)(t, a);
}

/* x: the channel block; v: the tile's vector of the first of the A*A matrices, which lie `step` elements apart. */
void FN(transform)(SRC x, DST v, long step, int top, int left, const struct conv_winograd_args *a)
{
    float patch[A * A * V] __attribute__((aligned(64)));
    const bool inside = top >= 0 && top + A <= a->in[0] && left >= 0 && left + A <= a->in[1];
    for (int r = 0; r < A; r++) {
        const int h = top + r;
        SRC row = x + ((long)h * a->in[1] + left) * V;
#pragma unroll
        for (int c = 0; c < A; c++) {
            const bool there = inside || (h >= 0 && h < a->in[0] && left + c >= 0 && left + c < a->in[1]);
            FV value = 0.0f;
            if (there)
                value = LOADV(row, c * V);
            KEEPV(value, patch, (r * A + c) * V);
        }
    }
    FV e[A][A];
#pragma unroll
    for (int c = 0; c < A; c++) {
#define IN(i) LOADV(patch, ((i) * A + c) * V)
#define OUT(i) e[i][c]
        B_T(OUT, IN);
#undef IN
#undef OUT
    }
#pragma unroll
    for (int r = 0; r < A; r++) {
        FV out[A];
#define IN(i) e[r][i]
#define OUT(i) out[i]
        B_T(OUT, IN);
#undef IN
#undef OUT
#pragma unroll
        for (int c = 0; c < A; c++)
            STOREV(out[c], v, (r * A + c) * step);
    }
}

/* The channel blocks [begin, end) of group g, of `count` tiles from `first` on, to their part of v. */
void FN(transforms)(SRC x, DST v, int g, int begin, int end, int first, int count, const struct conv_winograd_args *a)
{
    const int per_image = a->tiles_high * a->tiles_wide;
    const long plane = (long)a->in[0] * a->in[1] * V;
    for (int cb = begin; cb < end; cb++)
        for (int t = 0; t < count; t++) {
            const int tile = a->first_tile + min(first + t, a->tiles - 1);
            const int n = tile / per_image, ty = tile % per_image / a->tiles_wide, tx = tile % a->tiles_wide;
            FN(transform)(x + n * a->src_n + (g * a->c_blocks + cb) * plane, v + (cb * count + t) * V,
                          FN(v_step)(count, a), ty * M - a->pad[0], tx * M - a->pad[1], a);
        }
}

/* m[T][KV] += sum over the channels of v[c][T] * u[c][KV], one of the A*A products; fresh: m is zero. */
#define PRODUCT(v, u, m, fresh, c_blocks)                                                                        \
    do {                                                                                                         \
        FV acc[T][KV];                                                                                           \
        _Pragma("unroll") for (int t = 0; t < T; t++) _Pragma("unroll") for (int k = 0; k < KV; k++) acc[t][k] = \
            (fresh) ? (FV)0.0f : LOADV(m, (k * T + t) * V);                                                      \
        for (int cb = 0; cb < (c_blocks); cb++, v += T * V)                                                      \
            _Pragma("unroll 1") for (int c = 0; c < V; c++, u += KV * V)                                         \
            {                                                                                                    \
                NEXT_FILTERS(u);                                                                                 \
                FV f[KV];                                                                                        \
                _Pragma("unroll") for (int k = 0; k < KV; k++) f[k] = LOADV(u, k * V);                           \
                _Pragma("unroll") for (int t = 0; t < T; t++)                                                    \
                {                                                                                                \
                    const FV value = v[t * V + c];                                                               \
                    _Pragma("unroll") for (int k = 0; k < KV; k++) acc[t][k] = fma(value, f[k], acc[t][k]);      \
                }                                                                                                \
            }                                                                                                    \
        _Pragma("unroll") for (int t = 0; t < T; t++) _Pragma("unroll") for (int k = 0; k < KV; k++)             \
            KEEPV(acc[t][k], m, (k * T + t) * V);                                                                \
    } while (0)

/* With filters that were transformed before. */
void FN(product)(SRC v, SRC u, float *m, int c_blocks)
{
#define NEXT_FILTERS(u) _Pragma("unroll") for (int k = 0; k < KV; k++) PREFETCH(u + AHEAD + k * V)
    PRODUCT(v, u, m, true, c_blocks);
#undef NEXT_FILTERS
}

/* With filters that this work-item has just transformed. */
void FN(partial_product)(SRC v, const float *u, float *m, bool fresh, int c_blocks)
{
#define NEXT_FILTERS(u)
    PRODUCT(v, u, m, fresh, c_blocks);
#undef NEXT_FILTERS
}

/* Block `block` of filters of the tiles from `first` on, from their part of v. */
void FN(outputs)(SRC v, SRC u, SRC bias, SRC add, DST y, int block, int first, const struct conv_winograd_args *a)
{
    const long v_step = FN(v_step)(T, a), u_step = (long)a->c_blocks * V * (KV * V);
    SRC ub = u + (long)block * (A * A) * u_step;
    float m[A * A][KV * T * V] __attribute__((aligned(64)));
    for (int i = 0; i < A * A; i++)
        FN(product)(v + i * v_step, ub + i * u_step, m[i], a->c_blocks);
    FN(pixels)(m[0], bias, add, y, block, first, a);
}

/* Transforms the filters of a block for the channels of `blocks` channel blocks, zeros past the group's. */
void FN(filters)(SRC w, float *u, int channels, int blocks)
{
    for (int c = 0; c < blocks * V; c++, w += R * R * KV * V, u += KV * V) {
#pragma unroll
        for (int v = 0; v < KV; v++) {
#define TAP(i) LOADV(w, (((i) * R + s) * KV + v) * V)
#define PUT(value, i) KEEPV(value, u, (i)*PITCH + v * V)
            if (c < channels) {
                FILTERS(TAP, PUT);
            } else {
#pragma unroll
                for (int i = 0; i < A * A; i++)
                    PUT((FV)0.0f, i);
            }
#undef TAP
#undef PUT
        }
    }
}

void FN(in_body)(ulong group, SRC x, DST v, const struct conv_winograd_args *a)
{
    const int pieces = (a->c_blocks + a->c_step - 1) / a->c_step, part = (int)(group / pieces);
    const int begin = (int)(group % pieces) * a->c_step;
    FN(transforms)(x, v + part * FN(part)(a->t, a), part % a->groups, begin, min(begin + a->c_step, a->c_blocks),
                   part / a->groups * a->t, a->t, a);
}

void FN(body)(ulong group, SRC x, DST v, SRC u, SRC bias, SRC add, DST y, const struct conv_winograd_args *a)
{
    const bool fused = a->t_step > 0;
    const int step = fused ? a->t_step : T, ranges = (a->tiles + step - 1) / step;
    const int range = (int)(group % ranges), rest = (int)(group / ranges); /* a group, or a block of filters */
    const int begin = range * step, end = min(begin + step, a->tiles);
    const int g = fused ? rest : rest / a->k_blocks;
    const int low = fused ? g * a->k_blocks : rest, high = fused ? low + a->k_blocks : low + 1;
    v += (fused ? (long)group : (long)range * a->groups + g) * FN(part)(T, a);
    for (int first = begin; first < end; first += T) {
        if (fused)
            FN(transforms)(x, v, g, 0, a->c_blocks, first, T, a);
        for (int block = low; block < high; block++)
            FN(outputs)(v, u, bias, add, y, block, first, a);
    }
}

void FN(fresh_body)(ulong group, SRC v, SRC w, SRC bias, SRC add, DST y, const struct conv_winograd_args *a)
{
    const int block = (int)group, g = block / a->k_blocks, tile_blocks = (a->tiles + T - 1) / T;
    const long v_step = FN(v_step)(T, a);
    SRC wb = w + (long)block * a->cg * (R * R * KV * V);
    float u[A * A][PITCH] __attribute__((aligned(64)));
    float m[TILE_BLOCKS][A * A][KV * T * V] __attribute__((aligned(64)));
    for (int cb = 0; cb < a->c_blocks; cb += CB) {
        const int blocks = min(CB, a->c_blocks - cb), lines = blocks * (V * R * R * KV * V / 16);
        const int each = (lines + tile_blocks * A * A - 1) / (tile_blocks * A * A);
        /* of this block of filters, or the first ones of the next */
        SRC next = wb + (long)(cb + CB) * (V * R * R * KV * V);
        FN(filters)(wb + (long)cb * (V * R * R * KV * V), u[0], a->cg - cb * V, blocks);
        for (int t = 0; t < tile_blocks; t++) {
            SRC part = v + (t * a->groups + g) * FN(part)(T, a) + cb * (T * V);
            for (int i = 0; i < A * A; i++) {
                for (int j = 0; j < each; j++, next += 16)
                    PREFETCH(next);
                for (int j = 0; j < blocks * T; j++) /* pieces that are too short for hardware to see a pattern */
                    PREFETCH_NEAREST(part + (i + 1) * v_step + j * V);
                FN(partial_product)(part + i * v_step, u[i], m[t][i], cb == 0, blocks);
            }
        }
    }
    for (int t = 0; t < tile_blocks; t++)
        FN(pixels)(m[t][0], bias, add, y, block, t * T, a);
}

KERNEL FN(pack)(SRC w, ulong w_off, DST u, ulong u_off, const struct conv_winograd_args a)
{
    FN(pack_body)(GROUP, w + w_off, u + u_off, &a);
}

KERNEL FN(in)(SRC x, ulong x_off, DST v, ulong v_off, const struct conv_winograd_args a)
{
    FN(in_body)(GROUP, x + x_off, v + v_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, DST v, ulong v_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add,
                ulong add_off, DST y, ulong y_off, const struct conv_winograd_args a)
{
    FN(body)(GROUP, x + x_off, v + v_off, u + u_off, bias + bias_off, add + add_off, y + y_off, &a);
}

KERNEL FN(fresh)(SRC v, ulong v_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                 ulong y_off, const struct conv_winograd_args a)
{
    FN(fresh_body)(GROUP, v + v_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
