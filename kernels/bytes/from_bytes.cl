/* from_bytes.cl: y[n][c][pixel] = (x[n][c/B][pixel][c % B] - zero) * scale.
 *
 * Layouts: x [ceil(C/B)][pixels][B], y [C][pixels], with batch strides.
 * Index map: a work-item computes `run` pixels of a channel; group = (item * C + channel) * runs + run.
 * Work-group: WG = 1. Local memory: none. Defines: B, 16 or 4. */
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

void FN(body)(ulong group, SRC_OF(uchar) x, DST y, const struct byte_move_args *a)
{
    const int runs = (a->pixels + a->run - 1) / a->run;
    const int first = (int)(group % (ulong)runs) * a->run, end = min(first + a->run, a->pixels);
    const long part = (long)(group / (ulong)runs);
    const int n = (int)(part / a->c), c = (int)(part % a->c);
    SRC_OF(uchar) from = x + n * a->src_n + (long)(c / B) * a->pixels * B + c % B;
    DST to = y + n * a->dst_n + (long)c * a->pixels;
    for (int i = first; i < end; i++)
        to[i] = (float)(from[(long)i * B] - a->zero) * a->scale;
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, DST y, ulong y_off, const struct byte_move_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
