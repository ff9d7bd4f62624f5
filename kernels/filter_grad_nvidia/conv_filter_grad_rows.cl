/* conv_filter_grad_rows.cl: a map whose rows begin on boundaries of 16 bytes, for conv_filter_grad_wgmma.cl: zeros
 * behind each row make it `quads` vectors of four long.
 *
 *   y[n][c][h][w] = w < width ? x[n][c][h][w] : 0
 *
 * Layouts: x NCHW with a batch stride; y dense, rows of 4 * quads.
 * Index map: item = row * quads + quad of y, rows of all images.
 * Work-group: WG items. Local memory: none. Defines: WG (any). */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
#ifndef FN
#define FN(x) conv_filter_grad_rows_##x
#endif

void FN(body)(ulong group, SRC x, DST y, const struct filter_grad_pitch_args *a)
{
    const long item = (long)group * WG + LANE, row = item / a->quads;
    const int first = (int)(item - row * a->quads) * 4;
    if (row < a->total) {
        const long n = row / a->rows;
        SRC from = x + n * a->image + (row - n * a->rows) * a->width + first;
        const int left = a->width - first;
        const float4 v =
            (float4)(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
        vstore4(v, (size_t)item, y);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct filter_grad_pitch_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
