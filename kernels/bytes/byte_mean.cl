/* byte_mean.cl: y[n][c] = limit(round(factor * sum of (x[n][c][...] - x_zero)), 0 to 255 after adding zero).
 *
 * Layouts: x [C/16][H][W][16], y [C/16][16], with batch strides.
 * Index map: a work-item computes a block of an item; group = item * blocks + block.
 * Work-group: WG = 1. Local memory: none. Defines: none. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_mean_##x
#endif
#include "bytes/bytes.clh"

void FN(body)(ulong group, SRC_OF(uchar) x, DST_OF(uchar) y, const struct byte_pool_args *a)
{
    const long n = (long)(group / (ulong)a->blocks), block = (long)(group % (ulong)a->blocks);
    const int pixels = a->in[0] * a->in[1];
    SRC_OF(uchar) map = x + n * a->src_n + block * pixels * 16;
    int16 sums = -pixels * a->x_zero;
    for (int i = 0; i < pixels; i++)
        sums += convert_int16(vload16(i, map));
    vstore16(convert_uchar16(clamp(NEAREST(convert_float16(sums) * a->factor) + a->zero, 0, 255)), 0,
             y + n * a->dst_n + block * 16);
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, DST_OF(uchar) y, ulong y_off, const struct byte_pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
