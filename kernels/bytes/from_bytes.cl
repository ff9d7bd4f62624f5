/* from_bytes.cl: y[n][c][pixel] = (x[n][c/B][pixel][c % B] - zero) * scale.
 *
 * Layouts: x [ceil(C/B)][pixels][B], y [C][pixels], or [pixels][C] with ROWS, with batch strides.
 * Index map: a work-item computes `run` pixels of a channel; group = (item * C + channel) * runs + run; with ROWS of
 * all channels, of rows of all items.
 * Work-group: WG = 1. Local memory: none. Defines: B, 16 or 4; ROWS 0 or 1, then B is 16. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) from_bytes_##x
#endif
#include "bytes/bytes.clh"
#ifndef B
#define B 16
#endif
#ifndef ROWS
#define ROWS 0
#endif

#if ROWS
void FN(rows)(ulong group, SRC_OF(uchar) x, DST y, const struct byte_move_args *a)
{
    const int first = (int)group * a->run, end = min(first + a->run, a->pixels);
    for (int c = 0; c < a->c; c += 16) {
        int at = first % a->n; /* row of its item */
        SRC_OF(uchar) from = x + ((long)(c / 16) * a->pixels + first) * 16;
        DST to = y + first / a->n * a->dst_n + (long)at * a->c + c;
        const int count = min(16, a->c - c);
        for (int i = first; i < end; i++, from += 16) {
            const float16 v = convert_float16(convert_int16(vload16(0, from)) - a->zero) * a->scale;
            if (count == 16)
                *(global byte_floats *)to = v;
            else
                for (int j = 0; j < count; j++)
                    to[j] = ((const private float *)&v)[j];
            to += a->c;
            if (++at == a->n) {
                at = 0;
                to += a->dst_n - (long)a->n * a->c;
            }
        }
    }
}
#endif

void FN(body)(ulong group, SRC_OF(uchar) x, DST y, const struct byte_move_args *a)
{
#if ROWS
    FN(rows)(group, x, y, a);
#else
    const int runs = (a->pixels + a->run - 1) / a->run;
    const int first = (int)(group % (ulong)runs) * a->run, end = min(first + a->run, a->pixels);
    const long part = (long)(group / (ulong)runs);
    const int n = (int)(part / a->c), c = (int)(part % a->c);
    SRC_OF(uchar) from = x + n * a->src_n + (long)(c / B) * a->pixels * B + c % B;
    DST to = y + n * a->dst_n + (long)c * a->pixels;
    for (int i = first; i < end; i++)
        to[i] = (float)(from[(long)i * B] - a->zero) * a->scale;
#endif
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, DST y, ulong y_off, const struct byte_move_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
