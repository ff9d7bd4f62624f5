/* conv_strassen.cl: 1x1 convolution at stride 1 by Strassen's seven products of halves instead of eight, for CPU devices.
 *
 *   y[n][k][p] = act( sum_c w[k][c] x[n][c][p] + bias[k] + add[n][k][p] )
 *
 * Filters, channels and two neighbouring tiles of pixels are halved: w11 w12 w21 w22 (first index: half of the filters, second: of
 * the channels), x11 .. x22 (half of the channels, tile), y11 .. y22 (half of the filters, tile), and
 *
 *   p0 = (w11 + w22) (x11 + x22)    p1 = (w21 + w22) x11    p2 = w11 (x12 - x22)    p3 = w22 (x21 - x11)
 *   p4 = (w11 + w12) x22    p5 = (w21 - w11) (x11 + x12)    p6 = (w12 - w22) (x21 + x22)
 *   y11 = p0 + p3 - p4 + p6    y12 = p2 + p4    y21 = p1 + p3    y22 = p0 - p1 + p2 + p5
 *
 * (Strassen 1969.) A value that is not finite spoils both tiles of its pair. x, y, add [ceil(C/V)][H*W][V] with batch strides; C is a
 * multiple of 2*V, K of 2*KV*V. Pairs of tiles are numbered over the batch, `pairs` of an image; what lies past its pixels counts as 0.
 *   pack    u [K/2/(KV*V)][7][C/2][KV*V]: the left factors. Group = block of filters * 7 + product.
 *   spread  s [7][pair][C/2/V][T][V]: the right factors of `count` pairs from `first` on. Group = pair * (C/2/V) + block of channels.
 *   main    y. Group = chunk of per_item pairs * (K/2/(KV*V)) + block of filters. The left factor of a product serves up to PAIRS
 *           pairs before the next one is read, which is prefetched meanwhile: a network's weights come from memory.
 * A register tile holds T pixels by KV vectors of filters of one product.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile and KV vectors of filters (T * KV + KV + 1 vector registers); PAIRS of
 * which sums are kept; EPI_ACT act_* (blocked_store.clh). */
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
#define FN(x) conv_strassen_##x
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
#ifndef PAIRS
#define PAIRS 8
#endif
#include "strassen.clh"
#define SOON 16            /* channels from the weights that are read to those on their way to the first cache */
#define AHEAD 2            /* channel blocks from what is read of a right factor to the same; the next pair's follows */
#define TILE (T * KV * V)  /* sums */
#define EACH_SUM                                     \
    _Pragma("unroll") for (int t = 0; t < T; t++)    \
        _Pragma("unroll") for (int v = 0; v < KV; v++)

void FN(pack_body)(ulong group, SRC w, DST u, const struct conv_strassen_args *a)
{
    const int half_c = a->c_blocks * V, half_k = a->k_blocks * (KV * V);
    const int block = (int)(group / 7), product = (int)(group % 7);
    u += group * (ulong)(half_c * (KV * V));
    for (int j = 0; j < KV * V; j++) {
        SRC upper = w + (block * (KV * V) + j) * a->w_k;
        SRC lower = upper + half_k * a->w_k;
        for (int c = 0; c < half_c; c++) {
            const float w11 = upper[c], w12 = upper[half_c + c], w21 = lower[c], w22 = lower[half_c + c];
            u[(long)c * (KV * V) + j] = product == 0   ? w11 + w22
                                        : product == 1 ? w21 + w22
                                        : product == 2 ? w11
                                        : product == 3 ? w22
                                        : product == 4 ? w11 + w12
                                        : product == 5 ? w21 - w11
                                                       : w12 - w22;
        }
    }
}

/* Pixel t of a tile of which `left` exist. */
FV FN(pixel)(SRC x, int t, int left)
{
    return t < left ? LOADV(x, (long)t * V) : (FV)0.0f;
}

void FN(spread_body)(ulong group, SRC x, DST s, const struct conv_strassen_args *a)
{
    const int block = (int)(group % a->c_blocks), in_slice = (int)(group / a->c_blocks), pair = a->first + in_slice;
    const int at = pair % a->pairs * (2 * T), left = a->pixels - at;
    const long tile = (long)a->c_blocks * (T * V), step = FN(right_step)(a), half_c = (long)a->c_blocks * a->pixels * V;
    SRC upper = x + pair / a->pairs * a->src_n + ((long)block * a->pixels + at) * V;
    SRC lower = upper + half_c;
    s += in_slice * tile + block * (T * V);
    for (int t = 0; t < T; t++, s += V) {
        const FV x11 = FN(pixel)(upper, t, left), x12 = FN(pixel)(upper, t + T, left);
        const FV x21 = FN(pixel)(lower, t, left), x22 = FN(pixel)(lower, t + T, left);
        FN(factors)(x11, x12, x21, x22, s, step);
    }
}

/* Where results go: their first filter, the tile's first pixel in the image, the image's maps. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    int k, pixel;
};

/* Brings near what the results of a tile overwrite, and what is added to them. */
void FN(approach)(const struct FN(target) *to, const struct conv_strassen_args *a)
{
    const int count = min(T, a->pixels - to->pixel);
    long at = ((long)(to->k / V) * a->pixels + to->pixel) * V;
    for (int v = 0; v < KV; v++, at += (long)a->pixels * V)
        for (int t = 0; t < count; t++) {
            PREFETCH(to->y + at + t * V);
            if (a->epi.add)
                PREFETCH(to->add + at + t * V);
        }
}

/* One product of a pair, s u, and what follows: sums, y11 y12 y21 y22 so far, are added to, and those that are complete stored.
 * `to`: of y11. Prefetches `lines` lines from `next` on with every block of channels. */
void FN(multiply)(int product, SRC s, SRC u, float *sums, SRC next, int lines, struct FN(target) to,
                  const struct conv_strassen_args *a)
{
    const int lower = product == 3 || product == 5, later = product == 4 || product == 5; /* half and tile of what it completes */
    const bool completes = product >= 3, goes_on = product >= 5;
    to.k += lower ? a->k_blocks * (KV * V) : 0;
    to.pixel += later ? T : 0;
    const int count = completes ? min(T, a->pixels - to.pixel) : 0;
    const float *so_far = sums + (lower * 2 + later) * TILE;
    if (completes)
        FN(approach)(&to, a);
    FV acc[T][KV];
    EACH_SUM acc[t][v] = goes_on ? LOADV(so_far, (v * T + t) * V) : (FV)0.0f;
    for (int block = 0; block < a->c_blocks; block++, s += T * V) {
        for (int j = 0; j < lines; j++, next += 16)
            PREFETCH(next);
#pragma unroll
        for (int t = 0; t < T; t++)
            PREFETCH_NEAREST(s + (AHEAD * T + t) * V);
#pragma unroll 1
        for (int c = 0; c < V; c++, u += KV * V) {
            FV f[KV];
#pragma unroll
            for (int v = 0; v < KV; v++) {
                PREFETCH_NEAREST(u + (SOON * KV + v) * V);
                f[v] = LOADV(u, v * V);
            }
#pragma unroll
            for (int t = 0; t < T; t++) {
                const FV value = s[t * V + c];
#pragma unroll
                for (int v = 0; v < KV; v++)
                    acc[t][v] = fma(value, f[v], acc[t][v]);
            }
        }
    }
#define SUM(q) (sums + (q) * TILE + (v * T + t) * V)
    switch (product) {
    case 0:
        EACH_SUM
        {
            KEEPV(acc[t][v], SUM(0), 0);
            KEEPV(acc[t][v], SUM(3), 0);
        }
        return;
    case 1:
        EACH_SUM
        {
            KEEPV(acc[t][v], SUM(2), 0);
            KEEPV(LOADV(SUM(3), 0) - acc[t][v], SUM(3), 0);
        }
        return;
    case 2:
        EACH_SUM
        {
            KEEPV(acc[t][v], SUM(1), 0);
            KEEPV(LOADV(SUM(3), 0) + acc[t][v], SUM(3), 0);
        }
        return;
    case 3:
        EACH_SUM
        {
            KEEPV(LOADV(SUM(0), 0) + acc[t][v], SUM(0), 0);
            acc[t][v] += LOADV(SUM(2), 0);
        }
        break;
    case 4:
        EACH_SUM
        {
            KEEPV(LOADV(SUM(0), 0) - acc[t][v], SUM(0), 0);
            acc[t][v] += LOADV(SUM(1), 0);
        }
        break;
    }
#undef SUM
    const struct blocked_epilogue epi = a->epi; /* copies: stores of y cannot change them */
    const global float *add = to.add;
    global float *y = to.y;
    long at = ((long)(to.k / V) * a->pixels + to.pixel) * V;
#pragma unroll
    for (int v = 0; v < KV; v++, at += (long)a->pixels * V) {
        const FV b = FN(bias)(to.bias, to.k + v * V, to.k + KV * V, &epi);
#pragma unroll
        for (int t = 0; t < T; t++)
            if (t < count)
                FN(store)(acc[t][v], b, add, y, at + t * V, V, &epi);
    }
}

void FN(body)(ulong group, SRC s, SRC u, SRC bias, SRC add, DST y, const struct conv_strassen_args *a)
{
    const int block = (int)(group % a->k_blocks), chunk = (int)(group / a->k_blocks);
    const int end = min((chunk + 1) * a->per_item, a->count);
    const long right = (long)a->c_blocks * (T * V), left = (long)a->c_blocks * (V * KV * V);
    float sums[PAIRS][4 * TILE] __attribute__((aligned(64)));
    u += block * 7 * left;
    for (int begin = chunk * a->per_item; begin < end; begin += PAIRS) {
        const int count = min(PAIRS, end - begin), lines = (V * KV * V / 16 + count - 1) / count;
        for (int product = 0; product < 7; product++)
            for (int i = 0; i < count; i++) {
                const int pair = a->first + begin + i;
                const long n = pair / a->pairs;
                const struct FN(target) to = {bias, add + n * a->add_n, y + n * a->dst_n, block * (KV * V),
                                              pair % a->pairs * (2 * T)};
                SRC next = u + (product + 1) * left + (long)i * lines * 16 * a->c_blocks;
                FN(multiply)(product, s + product * FN(right_step)(a) + (begin + i) * right, u + product * left, sums[i], next,
                             lines, to, a);
            }
    }
}

KERNEL FN(pack)(SRC w, ulong w_off, DST u, ulong u_off, const struct conv_strassen_args a)
{
    FN(pack_body)(GROUP, w + w_off, u + u_off, &a);
}

KERNEL FN(spread)(SRC x, ulong x_off, DST s, ulong s_off, const struct conv_strassen_args a)
{
    FN(spread_body)(GROUP, x + x_off, s + s_off, &a);
}

KERNEL FN(main)(SRC s, ulong s_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct conv_strassen_args a)
{
    FN(body)(GROUP, s + s_off, u + u_off, bias + bias_off, add + add_off, y + y_off, &a);
}
