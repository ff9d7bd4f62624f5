/* conv_strassen.cl: 1x1 convolution at stride 1, and linear layers, by Strassen's seven products of halves instead of
 * eight, for CPU devices.
 *
 *   y[n][k][p] = act( sum_c w[k][c] x[n][c][p] + bias[k] + add[n][k][p] )
 *
 * Factors, products and sums: strassen.clh. x, y, add [ceil(C/V)][H*W][V] with batch strides; C is a multiple of 2*V, K
 * of 2*KV*V.
 * With ROWS they are rows of matrices instead, x and y with strides of their own: a row is a pixel.
 * Pairs of tiles are numbered over the batch, `pairs` of an image; what lies past its pixels counts as 0.
 *   levels, gains  of filters and channels (scales.clh). Group = block of V.
 *   pack    u: the left factors. Group = block of filters.
 *   spread  s: the right factors of `count` pairs from `first` on. Group = pair * parts + part of the blocks of
 *           channels.
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

void FN(levels_body)(ulong group, SRC w, DST levels, const struct conv_strassen_args *b)
{
    FN(levels_block)((int)group, w, b->w_k, FN(channels)(&b->shape), FN(filters)(&b->shape), levels);
}

void FN(gains_body)(ulong group, SRC w, SRC levels, DST gains, const struct conv_strassen_args *b)
{
    const int filters = FN(filters)(&b->shape);
    for (int channel = (int)group * V; channel < ((int)group + 1) * V; channel++)
        gains[channel] = FN(gain_of)(channel, w, b->w_k, filters, levels);
}

/* A scaled filter. */
struct FN(filter) {
    const global float *w, *gains;
    float level, by;
};

/* A weight that is not finite stays so. */
float FN(levelled)(const struct FN(filter) *f, int c)
{
    return f->w[c] * f->level / f->gains[c];
}

float FN(weight)(const struct FN(filter) *f, int c)
{
    return f->by != 0.0f ? FN(levelled)(f, c) * f->by : 0.0f;
}

/* Brings a filter to size 1, which is sqrt(sum of magnitudes * the largest): at least its norm, at most 4th root of its
 * weights' number times it, and no square, which could leave the range of floats. Returns what undoes that: NaN where a
 * weight is not finite, and then, as for zeros, it counts as zeros. */
float FN(scale_filter)(struct FN(filter) *f, int channels)
{
    float sum = 0.0f, largest = 0.0f;
    for (int c = 0; c < channels; c++) {
        const float magnitude = fabs(FN(levelled)(f, c));
        sum += magnitude;
        largest = fmax(largest, magnitude);
    }
    if (f->level == 0.0f || sum == 0.0f) {
        f->by = 0.0f;
        return sum == 0.0f ? 0.0f : NAN;
    }
    const int exponent = (FN(exponent)(sum) + FN(exponent)(largest)) >> 1;
    f->by = FN(power)(-exponent);
    return FN(power)(exponent) / f->level;
}

void FN(pack_body)(ulong group, SRC w, SRC levels, SRC gains, DST u, const struct conv_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const int half_c = FN(channels)(a) / 2, half_k = FN(filters)(a) / 2;
    const long left = (long)half_c * (KV * V);
    u += group * (ulong)FN(left_block)(a);
    DST out = u + LEFT_HEAD;
    for (int j = 0; j < KV * V; j++, out++) {
        const int k = (int)group * (KV * V) + j;
        struct FN(filter) upper = {w + k * b->w_k, gains, levels[k], 0.0f};
        struct FN(filter) lower = {upper.w + half_k * b->w_k, gains, levels[k + half_k], 0.0f};
        u[j] = FN(scale_filter)(&upper, 2 * half_c);
        u[KV * V + j] = FN(scale_filter)(&lower, 2 * half_c);
        for (int c = 0; c < half_c; c++) {
            DST to = out + (long)c * (KV * V);
            const float w11 = FN(weight)(&upper, c), w12 = FN(weight)(&upper, half_c + c);
            const float w21 = FN(weight)(&lower, c), w22 = FN(weight)(&lower, half_c + c);
            to[0] = w11 + w22;
            to[left] = w21 + w22;
            to[2 * left] = w11;
            to[3 * left] = w22;
            to[4 * left] = w11 + w12;
            to[5 * left] = w21 - w11;
            to[6 * left] = w12 - w22;
        }
    }
}

/* Both halves of a pixel, which lie so many elements apart; zeros past the image. */
struct FN(halves) FN(pixel)(SRC x, long apart, bool exists)
{
    if (!exists)
        return (struct FN(halves)){0.0f, 0.0f};
    return (struct FN(halves)){LOADV(x, 0), LOADV(x, apart)};
}

/* The right factors of a pair for a block of channels of both halves, scaled by `by`; or, without it, not scaled and
 * counted. x: the block's first pixel, of which `left` exist, `row` elements apart where they are rows; s: the block's
 * first factor of product 0, NULL for none. */
void FN(spread_block)(int block, SRC x, long row, int left, SRC gains, DST s, long step, const float *by,
                      float *largest, const struct strassen_shape *a)
{
    const FV gain = LOADV(gains, block * V), gain2 = LOADV(gains, (a->c_blocks + block) * V);
    const long apart = a->c_blocks * BLOCK_STEP(a), pixel = ROWS ? row : V;
    for (int t = 0; t < T; t++) {
        struct FN(halves) first = FN(pixel)(x + t * pixel, apart, t < left);
        struct FN(halves) second = FN(pixel)(x + (t + T) * pixel, apart, t + T < left);
        first = by ? FN(scaled)(first, gain, gain2, by[t]) : FN(counted)(first, gain, gain2, largest + t * V);
        second =
            by ? FN(scaled)(second, gain, gain2, by[t + T]) : FN(counted)(second, gain, gain2, largest + (t + T) * V);
        if (s)
            FN(factors)(first.upper, second.upper, first.lower, second.lower, s + t * V, step);
    }
}

void FN(spread_body)(ulong group, SRC x, SRC gains, DST s, const struct conv_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const int part = (int)(group % b->parts), in_slice = (int)(group / b->parts), pair = b->first + in_slice;
    const int begin = part * a->c_blocks / b->parts, end = (part + 1) * a->c_blocks / b->parts;
    const int at = FN(pair_pixel)(pair, a), left = a->pixels - at;
    const long step = FN(right_step)(b->count, a), map = BLOCK_STEP(a);
    DST backs = s + FN(right_backs)(b->count, a) + in_slice * (2 * T);
    float largest[LARGEST], by[2 * T], back[2 * T];
    FN(count_anew)(largest);
    x += pair / a->pairs * b->src_n + at * (ROWS ? b->row : V);
    s += in_slice * FN(right_pair)(a);
    for (int block = 0; block < a->c_blocks; block++)
        FN(spread_block)(block, x + block * map, b->row, left, gains,
                         block >= begin && block < end ? s + block * (T * V) : 0, step, 0, largest, a);
    if (FN(settle)(largest, by, back))
        for (int block = begin; block < end; block++)
            FN(spread_block)(block, x + block * map, b->row, left, gains, s + block * (T * V), step, by, 0, a);
    for (int t = 0; part == 0 && t < 2 * T; t++)
        backs[t] = back[t];
}

void FN(body)(ulong group, SRC s, SRC u, SRC bias, SRC add, DST y, const struct conv_strassen_args *b)
{
    const struct strassen_shape *a = &b->shape;
    const int block = (int)(group % a->k_blocks), chunk = (int)(group / a->k_blocks);
    const int end = min((chunk + 1) * b->per_item, b->count);
    SRC backs = s + FN(right_backs)(b->count, a);
    for (int begin = chunk * b->per_item; begin < end; begin += PAIRS)
        FN(products)(block, b->first + begin, b->first + min(begin + PAIRS, end), s + begin * FN(right_pair)(a),
                     FN(right_step)(b->count, a), backs + begin * (2 * T), u, bias, add, y, a);
}

KERNEL FN(levels)(SRC w, ulong w_off, DST levels, ulong levels_off, const struct conv_strassen_args a)
{
    FN(levels_body)(GROUP, w + w_off, levels + levels_off, &a);
}

KERNEL FN(gains)(SRC w, ulong w_off, SRC levels, ulong levels_off, DST gains, ulong gains_off,
                 const struct conv_strassen_args a)
{
    FN(gains_body)(GROUP, w + w_off, levels + levels_off, gains + gains_off, &a);
}

KERNEL FN(pack)(SRC w, ulong w_off, SRC levels, ulong levels_off, SRC gains, ulong gains_off, DST u, ulong u_off,
                const struct conv_strassen_args a)
{
    FN(pack_body)(GROUP, w + w_off, levels + levels_off, gains + gains_off, u + u_off, &a);
}

KERNEL FN(spread)(SRC x, ulong x_off, SRC gains, ulong gains_off, DST s, ulong s_off, const struct conv_strassen_args a)
{
    FN(spread_body)(GROUP, x + x_off, gains + gains_off, s + s_off, &a);
}

KERNEL FN(main)(SRC s, ulong s_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_strassen_args a)
{
    FN(body)(GROUP, s + s_off, u + u_off, bias + bias_off, add + add_off, y + y_off, &a);
}
