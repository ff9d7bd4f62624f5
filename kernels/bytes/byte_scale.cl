/* byte_scale.cl: y[n][c][pixel] = limit(round(factor * scale[n][c] * (x[n][c][pixel] - x_zero) + shift[n][c]), 0 to 255
 * after adding zero); a scale or shift that is not a number counts as zero.
 *
 * Layouts: x and y [ceil(C/16)][pixels][16], scale and shift [C], with batch strides.
 * Index map: a work-item computes `run` pixels of a block; group = (item * blocks + block) * runs + run.
 * Work-group: WG = 1. Local memory: none. Defines: DOTS (bytes.clh), SHIFT 0 (default) or 1: whether there is
 * one. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_scale_##x
#endif
#include "bytes/bytes.clh"
#ifndef SHIFT
#define SHIFT 0
#endif
#define MOST 65536.0f /* times a byte that is not the zero point it is past all steps */

/* Numbers of 16 channels, from c on, times a factor. */
float16 FN(numbers)(SRC x, float factor, int c, const struct byte_scale_args *a)
{
    float s[16] __attribute__((aligned(64)));
    for (int j = 0; j < 16; j++)
        s[j] = c + j < a->c ? factor * x[c + j] : 0.0f;
    const float16 v = *(private float16 *)s;
    return select((float16)0.0f, clamp(v, -MOST, MOST), v == v);
}

int16 FN(scaled)(SRC_OF(uchar) x, float16 scale, float16 shift, const struct byte_scale_args *a)
{
    const int16 whole = convert_int16(*(const global unaligned_uchar16 *)x) - a->x_zero;
#if SHIFT
    return NEAREST(fma(convert_float16(whole), scale, shift)) + a->zero;
#else
    return NEAREST(convert_float16(whole) * scale) + a->zero;
#endif
}

void FN(body)(ulong group, SRC_OF(uchar) x, SRC scale, SRC shift, DST_OF(uchar) y, const struct byte_scale_args *a)
{
    const int runs = (a->pixels + a->run - 1) / a->run;
    const int first = (int)(group % (ulong)runs) * a->run, end = min(first + a->run, a->pixels);
    const long part = (long)(group / (ulong)runs), n = part / a->blocks, block = part % a->blocks;
    const float16 by = FN(numbers)(scale + n * a->scale_n, a->factor, (int)block * 16, a);
#if SHIFT
    const float16 on = FN(numbers)(shift + n * a->scale_n, 1.0f, (int)block * 16, a);
#else
    const float16 on = 0.0f;
#endif
    SRC_OF(uchar) from = x + n * a->src_n + block * a->pixels * 16;
    DST_OF(uchar) to = y + n * a->dst_n + block * a->pixels * 16;
    const struct byte_scale_args own = *a; /* a copy: stores of y cannot change it */
    int i = first;
    for (; i + 4 <= end; i += 4) {
        const int16 p = FN(scaled)(from + i * 16, by, on, &own), q = FN(scaled)(from + (i + 1) * 16, by, on, &own),
                    r = FN(scaled)(from + (i + 2) * 16, by, on, &own),
                    s = FN(scaled)(from + (i + 3) * 16, by, on, &own);
        *(global unaligned_int16 *)(to + i * 16) = PACK(p, q, r, s);
    }
    for (; i < end; i++)
        *(global unaligned_uchar16 *)(to + i * 16) =
            convert_uchar16(clamp(FN(scaled)(from + i * 16, by, on, &own), 0, 255));
}
#undef MOST

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, SRC scale, ulong scale_off, SRC shift, ulong shift_off, DST_OF(uchar) y,
                ulong y_off, const struct byte_scale_args a)
{
    FN(body)(GROUP, x + x_off, scale + scale_off, shift + shift_off, y + y_off, &a);
}
