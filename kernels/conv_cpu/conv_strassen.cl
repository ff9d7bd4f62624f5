/* conv_strassen.cl: 1x1 convolution at stride 1 by Strassen's seven products of halves instead of eight, for CPU devices.
 *
 *   y[n][k][p] = act( sum_c w[k][c] x[n][c][p] + bias[k] + add[n][k][p] )
 *
 * Factors, products and sums: strassen.clh. x, y, add [ceil(C/V)][H*W][V] with batch strides; C is a multiple of 2*V, K of 2*KV*V.
 * Pairs of tiles are numbered over the batch, `pairs` of an image; what lies past its pixels counts as 0.
 *   pack    u: the left factors. Group = block of filters * 7 + product.
 *   spread  s: the right factors of `count` pairs from `first` on. Group = pair * (C/2/V) + block of channels.
 *   main    y. Group = chunk of per_item pairs * (K/2/(KV*V)) + block of filters.
 * A register tile holds T pixels by KV vectors of filters of one product.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T, KV, PAIRS (strassen.clh); EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/strassen_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_strassen_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#ifndef T
#define T 14
#endif
#ifndef KV
#define KV 2
#endif
#ifndef PAIRS
#define PAIRS 8
#endif
#define FACTORS global
#include "conv_cpu/strassen.clh"

void FN(pack_body)(ulong group, SRC w, DST u, const struct conv_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const int half_c = a->c_blocks * V, half_k = a->k_blocks * (KV * V);
    const int block = (int)(group / 7), product = (int)(group % 7);
    u += group * (ulong)(half_c * (KV * V));
    for (int j = 0; j < KV * V; j++) {
        SRC upper = w + (block * (KV * V) + j) * b->w_k;
        SRC lower = upper + half_k * b->w_k;
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

void FN(spread_body)(ulong group, SRC x, DST s, const struct conv_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const int block = (int)(group % a->c_blocks), in_slice = (int)(group / a->c_blocks), pair = b->first + in_slice;
    const int at = FN(pair_pixel)(pair, a), left = a->pixels - at;
    const long step = FN(right_step)(b->count, a), half_c = (long)a->c_blocks * a->pixels * V;
    SRC upper = x + pair / a->pairs * b->src_n + ((long)block * a->pixels + at) * V;
    SRC lower = upper + half_c;
    s += in_slice * FN(right_pair)(a) + block * (T * V);
    for (int t = 0; t < T; t++, s += V) {
        const FV x11 = FN(pixel)(upper, t, left), x12 = FN(pixel)(upper, t + T, left);
        const FV x21 = FN(pixel)(lower, t, left), x22 = FN(pixel)(lower, t + T, left);
        FN(factors)(x11, x12, x21, x22, s, step);
    }
}

void FN(body)(ulong group, SRC s, SRC u, SRC bias, SRC add, DST y, const struct conv_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const int block = (int)(group % a->k_blocks), chunk = (int)(group / a->k_blocks);
    const int end = min((chunk + 1) * b->per_item, b->count);
    for (int begin = chunk * b->per_item; begin < end; begin += PAIRS)
        FN(products)(block, b->first + begin, b->first + min(begin + PAIRS, end), s + begin * FN(right_pair)(a),
                     FN(right_step)(b->count, a), u, bias, add, y, a);
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
