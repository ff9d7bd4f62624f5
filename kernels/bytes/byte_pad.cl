/* byte_pad.cl: maps of bytes with a border, or every stride-th pixel of them.
 *
 *   y[n][b][h][w] = x[n][b][h*stride - pad][w*stride - pad], zero outside of x
 *
 * Layouts: x and y [blocks][H][W][B] with batch strides.
 * Index map: a work-item writes `rows` rows of a block; group = (item * blocks + block) * runs of rows + run.
 * Work-group: WG = 1. Local memory: none. Defines: B bytes of a pixel, 16 or 4. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_pad_##x
#endif
#include "bytes/bytes.clh"
#ifndef B
#define B 16
#endif
#undef PIXEL
#if B == 16
#define PIXEL unaligned_uint4
#else
#define PIXEL unaligned_uint
#endif

void FN(body)(ulong group, SRC_OF(uchar) x, DST_OF(uchar) y, const struct byte_pad_args *a)
{
    const int runs = (a->out[0] + a->rows - 1) / a->rows;
    const int first = (int)(group % (ulong)runs) * a->rows, end = min(first + a->rows, a->out[0]);
    const long part = (long)(group / (ulong)runs), n = part / a->blocks, block = part % a->blocks;
    const uint four = (uint)a->zero * 0x01010101u;
    const PIXEL border = four;
    SRC_OF(uchar) map = x + a->src_at + n * a->src_n + block * a->in[0] * a->in[1] * B;
    DST_OF(PIXEL) to = (DST_OF(PIXEL))(y + a->dst_at + n * a->dst_n + (block * a->out[0] + first) * a->out[1] * B);
    const int step = a->stride[1], width = a->out[1];
    const int left = min((a->pad[1] + step - 1) / step, width);
    const int right = min((a->in[1] + a->pad[1] + step - 1) / step, width);
    for (int h = first; h < end; h++, to += width) {
        const int ih = h * a->stride[0] - a->pad[0];
        const bool inside = ih >= 0 && ih < a->in[0];
        SRC_OF(PIXEL) row = (const global PIXEL *)(map + (long)(inside ? ih : 0) * a->in[1] * B);
        const int from = inside ? left : width, past = inside ? right : width;
        for (int w = 0; w < from; w++)
            to[w] = border;
        for (int w = from; w < past; w++)
            to[w] = row[w * step - a->pad[1]];
        for (int w = past; w < width; w++)
            to[w] = border;
    }
}

KERNEL FN(main)(SRC_OF(uchar) x, ulong x_off, DST_OF(uchar) y, ulong y_off, const struct byte_pad_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
