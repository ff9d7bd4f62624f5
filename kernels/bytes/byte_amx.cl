/* byte_amx.cl: convolution of maps of bytes by tiles of bytes, for CPU devices; the sums and results are
 * byte_conv.cl's.
 *
 *   s[n][k][oh][ow] = bias[k] + sum_{c,r,s} (x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] - x_zero) * w[k][c][r][s]
 *
 * Layouts: x [C/16][H][W][16], y and add [K/16][H][W][16]; w packed by byte_conv_pack.cl in blocks of 64 channels and
 * 32 filters, then the sum of each filter (int). amx_products.clh tells of s, what positions hold; borders are x_zero.
 * Index map: as told there. Work-group: WG = 1. Local memory: none.
 * Defines: AMX (amx.clh); DOTS, ADD (bytes.clh). */
#ifndef WG
#define WG 1
#endif
#undef V
#define V 16
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) byte_amx_##x
#endif
#include "bytes/bytes.clh"
#include "common/prefetch.clh"
#undef TILE_BYTES
#define TILE_BYTES 1
#undef PARTS
#define PARTS 1
#include "conv_cpu/amx_places.clh"

#undef SOURCE_PARAMS
#undef SOURCE
#define SOURCE_PARAMS SRC_OF(uchar) x, const int x_zero
#define SOURCE x, x_zero

/* The 64 channels of `count` neighbours, `step` bytes apart: `blocks` blocks of 16 from x on, which lie `map` bytes
 * apart. */
void FN(gather)(DST out, SRC_OF(uchar) x, int count, int step, long map, int blocks)
{
    DST_OF(unaligned_uint4) to = (DST_OF(unaligned_uint4))out;
    int t = 0;
    if (blocks >= 4 && step == V)
        for (; t + 4 <= count; t += 4) { /* four pixels of each block: turned, in fours of bytes times four */
            const uint16 a = *(const global unaligned_uint16 *)(x + t * V),
                         b = *(const global unaligned_uint16 *)(x + map + t * V),
                         c = *(const global unaligned_uint16 *)(x + 2 * map + t * V),
                         d = *(const global unaligned_uint16 *)(x + 3 * map + t * V);
            STOREV(as_float16((uint16)(a.s0123, b.s0123, c.s0123, d.s0123)), out, t * V);
            STOREV(as_float16((uint16)(a.s4567, b.s4567, c.s4567, d.s4567)), out, (t + 1) * V);
            STOREV(as_float16((uint16)(a.s89ab, b.s89ab, c.s89ab, d.s89ab)), out, (t + 2) * V);
            STOREV(as_float16((uint16)(a.scdef, b.scdef, c.scdef, d.scdef)), out, (t + 3) * V);
        }
    for (; t < count; t++)
        for (int b = 0; b < 4; b++)
            to[t * 4 + b] =
                b < blocks ? *(const global unaligned_uint4 *)(x + b * map + (long)t * step) : (unaligned_uint4)0;
}

void FN(fill)(DST out, int count, int x_zero)
{
    const float16 border = as_float16((uint16)((uint)x_zero * 0x01010101u));
    for (int t = 0; t < count; t++)
        STOREV(border, out, t * V);
}

/* The bytes of 64 channels from c on, of a phase's positions from..past - 1. */
void FN(split_run)(DST out, int c, int phase, long from, long past, const struct conv_amx_args *a, SOURCE_PARAMS)
{
    const long map = (long)a->width * a->map_height * V; /* of a block of channels */
    const int top = phase / a->phases[1], left = phase % a->phases[1], step = a->stride[1] * V;
    const int there = (a->width - left + a->stride[1] - 1) / a->stride[1]; /* pixels of a row */
    const int before = (int)clamp((long)a->lead - from, 0L, past - from), blocks = (a->c - c + V - 1) / V;
    FN(fill)(out, before, x_zero);
    out += before * POSITION;
    long position = from + before;
    struct FN(place) at = FN(place_of)(position - a->lead, a);
    while (position < past) {
        const int run = (int)min(past - position, (long)(a->pitch - at.column)), row = at.row * a->stride[0] + top;
        const int count = at.n < a->n && row < a->map_height ? clamp(there - at.column, 0, run) : 0;
        if (count > 0) {
            const long pixel = (long)row * a->width + at.column * a->stride[1] + left;
            FN(gather)(out, x + at.n * a->src_n + c / V * map + pixel * V, count, step, map, blocks);
        }
        FN(fill)(out + count * POSITION, run - count, x_zero);
        out += run * POSITION;
        position += run;
        at.column += run - 1;
        FN(advance)(&at, a);
    }
}

/* totals: the sum of each filter. */
#undef RESULT_PARAMS
#undef RESULT
#define RESULT_PARAMS \
    const global int *totals, SRC factor, SRC bias, SRC_OF(uchar) add, DST_OF(uchar) y, const struct byte_amx_args *all
#define RESULT totals, factor, bias, add, y, all

void FN(store_run)(const float *sums, int count, int n, long pixel, int k, const struct conv_amx_args *a, RESULT_PARAMS)
{
    const struct byte_steps steps = all->steps; /* a copy: stores of y cannot change it */
    const long map = (long)a->out[0] * a->out[1];
    for (int first = k; first < min(k + SIDE, a->k); first += V) {
        const float16 f = FN(factors)(factor, first, &steps);
        const int16 begin =
            FN(biases)(bias, first, &steps) - all->x_zero * *(const global unaligned_int16 *)(totals + first);
        const int16 *at = (const int16 *)(sums + first - k);
        const long i = (first / V * map + pixel) * V;
        SRC_OF(uchar) others = add + n * a->add_n + i;
        DST_OF(uchar) to = y + n * a->dst_n + i;
        int t = 0;
        for (; t + 4 <= count; t += 4) {
            const int16 four[] = {at[t * 2] + begin, at[t * 2 + 2] + begin, at[t * 2 + 4] + begin,
                                  at[t * 2 + 6] + begin};
            FN(store_pixels)(four, 1, f, others, to, t * V, &steps);
        }
        for (; t < count; t++)
            FN(store_pixel)(at[t * 2] + begin, f, others, to, t * V, &steps);
    }
}

#include "conv_cpu/amx_products.clh"

void FN(body)(ulong group, SRC_OF(uchar) x, SRC w, SRC factor, SRC bias, SRC_OF(uchar) add, DST s, DST_OF(uchar) y,
              const struct byte_amx_args *all)
{
    const struct conv_amx_args *a = &all->shape;
    const global int *totals = (const global int *)(w + (long)a->k_blocks * a->span * a->ker[0] * a->ker[1] * FILTERS);
    FN(amx)(group, w, s, a, x, all->x_zero, totals, factor, bias, add, y, all);
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, SRC w, ulong w_off, SRC factor, ulong factor_off, SRC bias,
                ulong bias_off, SRC_OF(uchar) add, ulong add_off, DST s, ulong s_off, DST_OF(uchar) y, ulong y_off,
                const struct byte_amx_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, factor + factor_off, bias + bias_off, add + add_off, s + s_off, y + y_off,
             &a);
}
#undef TILE_BYTES
#undef PARTS
