/* conv_winograd.cl: RxR and DxRxR convolution at stride 1 by Winograd's minimal filtering F(MxM, RxR), for CPU devices.
 *
 *   y = act( A^T [ sum_c (G w[k][c] G^T) * (B^T x[c] B) ] A + bias[k] + add ),  element-wise products, a tile of M x M
 *   pixels
 *
 * (Lavin and Gray 2016; the matrices are in winograd.clh.) x, y, add [ceil(C/V)][D][H][W][V] with batch strides.
 * Lanes of y past K are written as zeros. Where a group begins or ends within a block, its filters and channels are in
 * the lanes that they have in y and x, only its own channels are multiplied, and it writes its own lanes. Filters of
 * several slices are those of as many times the channels: first all channels under the first tap of depth, and so on.
 *   pack   u [blocks of KV*V filters][A*A][C/groups up to whole blocks][KV*V] = G w G^T, zeros for missing filters and
 *          channels. Group = (block * channels + c) of one channel of a block of filters.
 *          `turned` weights are those of a transposed convolution at stride 1.
 *   in     v [blocks of T tiles][groups][A*A][C/groups/V][T][V] = B^T x B, V floats between the A*A. Group = (block of
 *          tiles * groups + group) * pieces + piece of c_step channel blocks. The gap behind each matrix holds LIVE
 *          masks: a bit for each channel, which is 0 where the channel is zero under all T tiles. Products walk the
 *          bits that are set. c_step is a multiple of 32 / V, so that a mask has one writer.
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
 * Defines: M and R 4 and 3, 2 and 3, 3 and 4, or 2 and 5; SPREAD (winograd_pixels.clh); V channels of a block, 16 or 8;
 * T tiles and KV vectors of filters of a register tile (T * KV + KV + 1 vector registers), which `in` takes at run
 * time; TILE_BLOCKS of fresh; EPI_ACT act_* (blocked_store.clh). */
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
#include "common/bits.clh"
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
#define OUTSIDE (1 << 30)           /* rows above the image, for a slice that is not there */
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
    const int channels = a->c_blocks * V, of_tap = channels / a->ker_d, taps_of_c = a->ker_d * R * R;
    const int c = (int)(group % channels), block = (int)(group / channels);
    const int g = block / a->k_blocks, k0 = block % a->k_blocks * (KV * V) - g * a->kg % V;
    const int from_c = c % of_tap - g * a->cg % V, first = c / of_tap * (R * R); /* the channel, and its first tap */
    for (int v = 0; v < KV; v++) {
        float taps[R * R][V];
        for (int j = 0; j < V; j++) {
            const int k = k0 + v * V + j;
            const bool there = k >= 0 && k < a->kg && from_c >= 0 && from_c < a->cg;
            SRC from = a->turned ? w + (g * a->cg + from_c) * a->w_k + k * taps_of_c
                                 : w + (g * a->kg + k) * a->w_k + from_c * taps_of_c;
            for (int i = 0; i < R * R; i++)
                taps[i][j] = there ? from[a->turned ? taps_of_c - 1 - first - i : first + i] : 0.0f;
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

/* Where the mask of the channels from 32 * word on lies, of a part of v whose matrices lie v_step apart. */
#define LIVE(v, v_step, word) ((v)[((word) / V + 1) * (v_step) - V + (word) % V])

/* x: the channel block; v: the tile's vector of the first of the A*A matrices, which lie `step` elements apart. The
 * bits that any pixel of a channel has. */
IV FN(transform)(SRC x, DST v, long step, int top, int left, const struct conv_winograd_args *a)
{
    float patch[A * A * V] __attribute__((aligned(64)));
    IV any = 0;
    const int down = DIL(0, a), over = DIL(1, a);
    const bool inside = top >= 0 && top + (A - 1) * down < a->in[0] && left >= 0 && left + (A - 1) * over < a->in[1];
    for (int r = 0; r < A; r++) {
        const int h = top + r * down;
        SRC row = x + ((long)h * a->in[1] + left) * V;
#pragma unroll
        for (int c = 0; c < A; c++) {
            const int w = left + c * over;
            const bool there = inside || (h >= 0 && h < a->in[0] && w >= 0 && w < a->in[1]);
            FV value = 0.0f;
            if (there)
                value = LOADV(row, c * over * V);
            any |= VEC_CAT(as_int, V)(value);
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
    return any;
}

/* The channel blocks [begin, end) of group g, of `count` tiles from `first` on, to their part of v, and their masks. */
void FN(transforms)(SRC x, DST v, int g, int begin, int end, int first, int count, const struct conv_winograd_args *a)
{
    const int blocks = SPREAD ? a->c_blocks / a->ker_d : a->c_blocks, depth = SPREAD ? a->in_d : 1;
    const long plane = (long)a->in[0] * a->in[1] * V, v_step = FN(v_step)(count, a);
    const int first_block = g * a->cg / V, from = g * a->cg - first_block * V;
    uint live = 0;
    for (int cb = begin; cb < end; cb++) {
        const int tap = SPREAD ? cb / blocks : 0, block = cb - tap * blocks;
        /* the group's lanes: others, and those past the last channel, hold anything; other groups have parts of one
         * block more */
        const int low = max(from - block * V, 0), high = min(from + a->cg - block * V, V);
        IV any = a->skip ? 0 : INT_MAX;
        for (int t = 0; t < count && high > 0; t++) {
            const struct FN(place) p = FN(place_of)(a->first_tile + min(first + t, a->tiles - 1), a);
            const int slice = SPREAD ? p.slice * a->stride_d - a->pad_d + tap * a->dil_d : 0;
            const int above = (uint)slice < (uint)depth ? 0 : OUTSIDE;
            any |= FN(transform)(x + p.n * a->src_n + ((long)(first_block + block) * depth + slice) * plane,
                                 v + (cb * count + t) * V, v_step, p.h - a->pad[0] - above, p.w - a->pad[1], a);
        }
        const int c = cb * V;
        if (high > 0)
            live |= (FN(live_lanes)(any) & ((1u << high) - (1u << low))) << c % 32;
        if (cb + 1 == end || (c + V) % 32 == 0) {
            LIVE(v, v_step, c / 32) = as_float(live);
            live = 0;
        }
    }
}

/* acc[T][KV] += sum over the channels in `live`, from a channel block on, of v[c][T] * u[c][KV], one of the A*A
 * products. */
#define ADD_PRODUCTS(acc, v, u, live)                                                               \
    for (uint left = (live); left; left &= left - 1) {                                              \
        const int c = FIRST_BIT(left);                                                              \
        const global float *vc = (v) + (c / V * (T * V) + c % V);                                   \
        FV f[KV];                                                                                   \
        _Pragma("unroll") for (int k = 0; k < KV; k++) f[k] = LOADV((u) + c * (KV * V), k * V);     \
        NEXT_FILTERS((u) + c * (KV * V));                                                           \
        _Pragma("unroll") for (int t = 0; t < T; t++)                                               \
        {                                                                                           \
            const FV value = vc[t * V];                                                             \
            _Pragma("unroll") for (int k = 0; k < KV; k++) acc[t][k] = fma(value, f[k], acc[t][k]); \
        }                                                                                           \
    }

/* With filters that were transformed before. */
void FN(product)(SRC v, SRC u, float *m, SRC part, long v_step, int words)
{
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int k = 0; k < KV; k++)
            acc[t][k] = 0.0f;
#define NEXT_FILTERS(u) _Pragma("unroll") for (int k = 0; k < KV; k++) PREFETCH(u + AHEAD + k * V)
    for (int word = 0; word < words; word++, v += 32 * T, u += 32 * KV * V)
        ADD_PRODUCTS(acc, v, u, as_uint(LIVE(part, v_step, word)));
#undef NEXT_FILTERS
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int k = 0; k < KV; k++)
            KEEPV(acc[t][k], m, (k * T + t) * V);
}

/* With filters that this work-item has just transformed; fresh: m is zero. */
void FN(partial_product)(SRC v, const float *u, float *m, bool fresh, uint live)
{
    FV acc[T][KV];
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int k = 0; k < KV; k++)
            acc[t][k] = fresh ? (FV)0.0f : LOADV(m, (k * T + t) * V);
#define NEXT_FILTERS(u)
    ADD_PRODUCTS(acc, v, u, live);
#undef NEXT_FILTERS
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
        for (int k = 0; k < KV; k++)
            KEEPV(acc[t][k], m, (k * T + t) * V);
}

/* Block `block` of filters of the tiles from `first` on, from their part of v. */
void FN(outputs)(SRC v, SRC u, SRC bias, SRC add, DST y, int block, int first, const struct conv_winograd_args *a)
{
    const long v_step = FN(v_step)(T, a), u_step = (long)a->c_blocks * V * (KV * V);
    const int words = (a->c_blocks * V + 31) / 32;
    SRC ub = u + (long)block * (A * A) * u_step;
    float m[A * A][KV * T * V] __attribute__((aligned(64)));
    for (int i = 0; i < A * A; i++)
        FN(product)(v + i * v_step, ub + i * u_step, m[i], v, v_step, words);
    FN(pixels)(m[0], bias, add, y, block, first, a);
}

/* Transforms the filters of a block for the channels in `live`. */
void FN(filters)(SRC w, float *u, uint live)
{
    for (uint left = live; left; left &= left - 1) {
        const int c = FIRST_BIT(left);
        SRC wc = w + c * (R * R * KV * V);
        float *uc = u + c * (KV * V);
#pragma unroll
        for (int v = 0; v < KV; v++) {
#define TAP(i) LOADV(wc, (((i) * R + s) * KV + v) * V)
#define PUT(value, i) KEEPV(value, uc, (i)*PITCH + v * V)
            FILTERS(TAP, PUT);
#undef TAP
#undef PUT
        }
    }
}

/* The channels of CB blocks from block cb on, at most 32, which are live in a part of v. */
uint FN(live)(SRC part, long v_step, int cb)
{
    const uint word = as_uint(LIVE(part, v_step, cb * V / 32));
    return CB * V == 32 ? word : word >> cb * V % 32 & ((1u << CB * V % 32) - 1);
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

/* Brings the filters of a channel near. */
void FN(approach)(SRC w)
{
#pragma unroll
    for (int i = 0; i < R * R * KV * V; i += 16)
        PREFETCH(w + i);
}

void FN(fresh_body)(ulong group, SRC v, SRC w, SRC bias, SRC add, DST y, const struct conv_winograd_args *a)
{
    const int block = (int)group, g = block / a->k_blocks, tile_blocks = (a->tiles + T - 1) / T;
    const long v_step = FN(v_step)(T, a), part_step = (long)a->groups * FN(part)(T, a);
    SRC wb = w + (long)block * a->cg * (R * R * KV * V);
    const int products = tile_blocks * A * A;
    float u[A * A][PITCH] __attribute__((aligned(64)));
    float m[TILE_BLOCKS][A * A][KV * T * V] __attribute__((aligned(64)));
    v += g * FN(part)(T, a);
    for (int cb = 0; cb < a->c_blocks; cb += CB) {
        const bool last = cb + CB >= a->c_blocks;
        uint live[TILE_BLOCKS], any = 0, any_next = 0;
        for (int t = 0; t < tile_blocks; t++) {
            any |= live[t] = FN(live)(v + t * part_step, v_step, cb);
            any_next |= FN(live)(v + t * part_step, v_step, last ? 0 : cb + CB);
        }
        /* of this block of filters, or the first ones of the next */
        SRC next = wb + (long)(cb + CB) * (V * R * R * KV * V);
        const int wanted = popcount(any_next);
        int asked = 0;
        FN(filters)(wb + (long)cb * (V * R * R * KV * V), u[0], any);
        for (int t = 0; t < tile_blocks; t++) {
            SRC part = v + t * part_step + cb * (T * V);
            const int blocks = min(CB, a->c_blocks - cb);
            for (int i = 0; i < A * A; i++) {
                asked += wanted; /* spread over the products */
                while (asked >= products) {
                    asked -= products;
                    FN(approach)(next + FIRST_BIT(any_next) * (R * R * KV * V));
                    any_next &= any_next - 1;
                }
                for (int j = 0; j < blocks * T; j++) /* pieces that are too short for hardware to see a pattern */
                    PREFETCH_NEAREST(part + (i + 1) * v_step + j * V);
                FN(partial_product)(part + i * v_step, u[i], m[t][i], cb == 0, live[t]);
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
