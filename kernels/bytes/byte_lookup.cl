/* byte_lookup.cl: y[n][i] = table[x[n][i]] for each byte of a map.
 *
 * Layouts: the bytes of an item in one piece, with batch strides; table: 256 bytes.
 * Index map: a work-item looks up `run` bytes, a multiple of 64, of an item; group = item * runs + run.
 * Work-group: WG = 1. Local memory: none.
 * Defines: PERMUTES, 1 for vpermi2b, which only processors with AVX512-VBMI and drivers that take assembly have, 0
 * (default) for OpenCL C. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_lookup_##x
#endif
#include "bytes/bytes.clh"
#ifndef PERMUTES
#define PERMUTES 0
#endif

#if PERMUTES
/* The bytes that 64 select out of 128, by their seven lower bits. */
byte64 FN(of_half)(byte64 x, byte64 low, byte64 high)
{
    __asm__("vpermi2b %2, %1, %0" : "+v"(x) : "v"(low), "v"(high));
    return x;
}
#endif

void FN(body)(ulong group, SRC_OF(uchar) x, SRC_OF(uchar) table, DST_OF(uchar) y, const struct byte_lookup_args *a)
{
    const long runs = (a->count + a->run - 1) / a->run, first = (long)(group % (ulong)runs) * a->run;
    const long end = min(first + a->run, (long)a->count), n = (long)(group / (ulong)runs);
    long i = first;
    x += n * a->src_n;
    y += n * a->dst_n;
#if PERMUTES
    byte64 t[4];
    for (int k = 0; k < 4; k++)
        t[k] = *(const global unaligned_byte64 *)(table + k * 64);
    for (; i + 64 <= end; i += 64) {
        const byte64 v = *(const global unaligned_byte64 *)(x + i);
        const byte64 below = FN(of_half)(v, t[0], t[1]), above = FN(of_half)(v, t[2], t[3]);
        *(global unaligned_byte64 *)(y + i) = v > (uchar)127 ? above : below;
    }
#endif
    for (; i < end; i++)
        y[i] = table[x[i]];
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, SRC_OF(uchar) table, ulong table_off, DST_OF(uchar) y, ulong y_off,
                const struct byte_lookup_args a)
{
    FN(body)(GROUP, x + x_off, table + table_off, y + y_off, &a);
}
