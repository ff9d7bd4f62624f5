/* byte_depthwise.cl: depthwise convolution of maps of bytes by dot products along rows of windows, for CPU devices.
 *
 *   what byte_conv.cl computes, with one channel for each filter
 *
 * Four pixels of a row, 64 bytes, turned so that a channel's bytes lie side by side, are what one dot product takes for
 * each of 16 channels.
 * Layouts: x [C/16][H][W][16], rows `row` and blocks `plane` bytes apart, which has its border already, and 64 bytes
 * more at its end; y and add [C/16][H][W][16]; w packed by byte_conv_pack.cl: [C/16][R][S/4][16][4], then the sum of
 * each filter (int).
 * Index map: group = (item * blocks + block) * chunks + chunk; a work-item computes the rows chunk * per_item ...
 * Work-group: WG = 1. Local memory: none.
 * Defines: S4 groups of four columns of a window, SW stride along a row, R rows of a window (0: told at run time),
 * DOTS, ADD (bytes.clh). */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_depthwise_##x
#endif
#include "bytes/bytes.clh"
#ifndef S4
#define S4 1
#endif
#ifndef SW
#define SW 1
#endif
#ifndef R
#define R 0
#endif

void FN(body)(ulong group, SRC_OF(uchar) x, SRC_OF(char) w, SRC factor, SRC bias, SRC_OF(uchar) add, DST_OF(uchar) y,
              const struct byte_conv_args *a)
{
    const int chunk = (int)(group % (ulong)a->chunks), part = (int)(group / (ulong)a->chunks);
    const int n = part / a->k_blocks, block = part % a->k_blocks, rows = R ? R : a->ker[0];
    const long filter = (long)rows * S4 * 64;
    const global int *totals = (const global int *)(w + filter * a->k_blocks) + block * 16;
    SRC_OF(char) wb = w + block * filter;
    const struct byte_steps steps = a->steps;
    const int16 begin = FN(biases)(bias, block * 16, &steps) - a->x_zero * *(const global unaligned_int16 *)totals;
    const float16 f = FN(factors)(factor, block * 16, &steps);
    const int end = min((chunk + 1) * a->per_item, a->out[0]);
#if R
    int16 filters[R * S4];
#pragma unroll
    for (int i = 0; i < R * S4; i++)
        filters[i] = *(const global unaligned_int16 *)(wb + i * 64);
#endif
    for (int oh = chunk * a->per_item; oh < end; oh++) {
        SRC_OF(uchar) src = x + n * a->src_n + block * a->plane + (long)(oh * a->stride) * a->row;
        const long at = block * a->out_plane + (long)oh * a->out[1] * 16;
        for (int ow = 0; ow < a->out[1]; ow++, src += SW * 16) {
            int16 sums = begin;
#if R
#pragma unroll
            for (int r = 0; r < R; r++)
#else
            for (int r = 0; r < rows; r++)
#endif
#pragma unroll
                for (int s = 0; s < S4; s++) {
                    const byte64 pixels =
                        __builtin_astype(*(const global unaligned_int16 *)(src + (long)r * a->row + s * 64), byte64);
                    const int16 four = TURN(pixels);
#if R
                    DOT(sums, four, filters[r * S4 + s]);
#else
                    const int16 taps = *(const global unaligned_int16 *)(wb + (r * S4 + s) * 64);
                    DOT(sums, four, taps);
#endif
                }
            FN(store_pixel)(sums, f, add + n * a->add_n, y + n * a->dst_n, at + ow * 16, &steps);
        }
    }
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, SRC_OF(char) w, ulong w_off, SRC factor, ulong factor_off, SRC bias,
                ulong bias_off, SRC_OF(uchar) add, ulong add_off, DST_OF(uchar) y, ulong y_off,
                const struct byte_conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, factor + factor_off, bias + bias_off, add + add_off, y + y_off, &a);
}
