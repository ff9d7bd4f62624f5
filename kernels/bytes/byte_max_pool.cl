/* byte_max_pool.cl: y[n][c][oh][ow] = the maximum of a window of a map of bytes, as far as it lies inside.
 *
 * Layouts: x and y [C/16][H][W][16] with batch strides.
 * Index map: a work-item computes `rows` rows of a block; group = (item * blocks + block) * runs of rows + run.
 * Work-group: WG = 1. Local memory: none. Defines: none. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_max_pool_##x
#endif
#include "bytes/bytes.clh"

void FN(body)(ulong group, SRC_OF(uchar) x, DST_OF(uchar) y, const struct byte_pool_args *a)
{
    const int runs = (a->out[0] + a->rows - 1) / a->rows;
    const int first = (int)(group % (ulong)runs) * a->rows, end = min(first + a->rows, a->out[0]);
    const long part = (long)(group / (ulong)runs), n = part / a->blocks, block = part % a->blocks;
    SRC_OF(uchar) map = x + n * a->src_n + block * a->in[0] * a->in[1] * 16;
    DST_OF(uchar) to = y + n * a->dst_n + (block * a->out[0] + first) * a->out[1] * 16;
    for (int oh = first; oh < end; oh++)
        for (int ow = 0; ow < a->out[1]; ow++, to += 16) {
            uchar16 most = 0;
            for (int r = 0, ih = oh * a->stride[0] - a->pad[0]; r < a->ker[0]; r++, ih += a->dil[0])
                for (int s = 0, iw = ow * a->stride[1] - a->pad[1]; s < a->ker[1]; s++, iw += a->dil[1])
                    if (ih >= 0 && ih < a->in[0] && iw >= 0 && iw < a->in[1])
                        most = max(most, vload16(0, map + ((long)ih * a->in[1] + iw) * 16));
            vstore16(most, 0, to);
        }
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, DST_OF(uchar) y, ulong y_off, const struct byte_pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
