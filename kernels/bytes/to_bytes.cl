/* to_bytes.cl: y[n][c/B][pixel][c % B] = limit(round(x[n][c][pixel] / scale) + zero, 0 to 255); NaN becomes zero, and
 * so do the lanes past the last channel.
 *
 * Layouts: x [C][pixels], or [pixels][C] with ROWS, y [ceil(C/B)][pixels][B], with batch strides.
 * Index map: a work-item computes `run` pixels, a multiple of 16, of four channels; group = ((item * ceil(C/B) + block)
 * * B/4 + four) * runs + run; with ROWS of all channels, of rows of all items.
 * Work-group: WG = 1. Local memory: none. Defines: B, 16 or 4; ROWS 0 or 1, then B is 16. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) to_bytes_##x
#endif
#include "bytes/bytes.clh"
#ifndef B
#define B 16
#endif
#ifndef ROWS
#define ROWS 0
#endif

int16 FN(steps)(float16 x, const struct byte_move_args *a)
{
    const float least = (float)-a->zero, most = (float)(255 - a->zero);
    float16 v = a->scale == 1.0f ? x : x / a->scale;
    v = v < least ? (float16)least : v;
    v = v > most ? (float16)most : v;
    return NEAREST(v == v ? v : (float16)0.0f) + a->zero;
}

#if ROWS
void FN(rows)(ulong group, SRC x, DST_OF(uchar) y, const struct byte_move_args *a)
{
    const int first = (int)group * a->run, end = min(first + a->run, a->pixels);
    for (int c = 0; c < a->c; c += 16) {
        int at = first % a->n; /* row of its item */
        SRC from = x + first / a->n * a->src_n + (long)at * a->c + c;
        DST_OF(uchar) to = y + ((long)(c / 16) * a->pixels + first) * 16;
        const int count = min(16, a->c - c);
        for (int i = first; i < end; i++, to += 16) {
            float16 v = 0.0f;
            if (count == 16)
                v = *(const global byte_floats *)from;
            else
                for (int j = 0; j < count; j++)
                    ((private float *)&v)[j] = from[j];
            vstore16(convert_uchar16(FN(steps)(v, a)), 0, to);
            from += a->c;
            if (++at == a->n) {
                at = 0;
                from += a->src_n - (long)a->n * a->c;
            }
        }
    }
}
#endif

void FN(body)(ulong group, SRC x, DST_OF(uchar) y, const struct byte_move_args *a)
{
#if ROWS
    FN(rows)(group, x, y, a);
#else
    const int runs = (a->pixels + a->run - 1) / a->run, fours = (a->c + B - 1) / B * (B / 4);
    const int first = (int)(group % (ulong)runs) * a->run, end = min(first + a->run, a->pixels);
    const long part = (long)(group / (ulong)runs);
    const int n = (int)(part / fours), four = (int)(part % fours), c = four * 4;
    SRC from = x + n * a->src_n + (long)c * a->pixels;
    DST_OF(int) to = (DST_OF(int))(y + n * a->dst_n) + (long)(four / (B / 4)) * a->pixels * (B / 4) + four % (B / 4);
    int words[16] __attribute__((aligned(64)));
    for (int i = first; i < end; i += 16) {
        const int count = min(16, end - i);
        int16 word = 0;
        for (int j = 0; j < 4; j++) {
            float16 v = 0.0f;
            SRC row = from + (long)j * a->pixels + i;
            if (c + j < a->c && count == 16)
                v = *(const global byte_floats *)row;
            else if (c + j < a->c)
                for (int t = 0; t < count; t++)
                    ((private float *)&v)[t] = row[t];
            word |= FN(steps)(v, a) << (8 * j);
        }
#if B == 4
        if (count == 16) {
            *(global unaligned_int16 *)(to + i) = word;
            continue;
        }
#endif
        *(private int16 *)words = word;
        for (int t = 0; t < count; t++)
            to[(long)(i + t) * (B / 4)] = words[t];
    }
#endif
}

KERNEL FN(main)(SRC x, ulong x_off, DST_OF(uchar) y, ulong y_off, const struct byte_move_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
