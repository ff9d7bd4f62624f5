/* pool_window.cl: max and average pooling over small windows of 2-D maps, for GPUs: a work-item slides down a column,
 * so that what overlapping windows share is read and combined along the width once.
 *
 *   y[n][c][oh][ow] = max or mean over r, s of x[n][c][oh*sh - ph + r][ow*sw - pw + s], taps outside left out
 *
 * The mean divides by the taps inside the input, or with include_pad by those inside the padded input. NaN wins a max.
 * Layouts: NCHW with batch strides. Index map: item = ((n * C + c) * strips of ROWS output rows + strip) * Q + ow.
 * Work-group: WG items. Local memory: none.
 * Defines: WG (any), AVG (0: max, 1: average), KH, KW (window), SH, SW (strides), ROWS (output rows of a work-item):
 * any from 1 on; X_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/maps.clh"
#ifndef FN
#define FN(x) pool_window_##x
#endif
#include "pool/pool_fold.clh"
#ifndef ROWS
#define ROWS 4
#endif
#define IN_ROWS ((ROWS - 1) * SH + KH)

void FN(body)(ulong group, X_SRC x, Y_DST y, const struct pool_args *a)
{
    const int strips = (a->out[1] + ROWS - 1) / ROWS, each = strips * a->out[2];
    const ulong item = group * WG + LANE, planes = (ulong)(a->rows / a->out[1]);
    if (item < planes * (uint)each) {
        const uint plane = (uint)(item / (uint)each), at = (uint)(item - (ulong)plane * (uint)each);
        const uint strip = at / (uint)a->out[2], n = plane / (uint)a->c, c = plane - n * (uint)a->c;
        const int ow = (int)(at - strip * (uint)a->out[2]), oh = (int)strip * ROWS;
        const int top = oh * SH - a->pad[1], left = ow * SW - a->pad[2];
        X_SRC from = x + n * a->x_n + (long)c * a->in[1] * a->in[2] + (long)top * a->in[2] + left;
        float line[IN_ROWS];
#pragma unroll
        for (int r = 0; r < IN_ROWS; r++) {
            const bool inside = top + r >= 0 && top + r < a->in[1];
            float v[KW];
#pragma unroll
            for (int s = 0; s < KW; s++)
                v[s] = inside && left + s >= 0 && left + s < a->in[2] ? LOAD_X(from, (long)r * a->in[2] + s) : NOTHING;
            line[r] = v[0];
#pragma unroll
            for (int s = 1; s < KW; s++)
                line[r] = FN(combine)(line[r], v[s]);
        }
        const int wide = FN(count)(left, 2, a);
        Y_DST to = y + n * a->y_n + ((long)c * a->out[1] + oh) * a->out[2] + ow;
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            float v = line[j * SH];
#pragma unroll
            for (int r = 1; r < KH; r++)
                v = FN(combine)(v, line[j * SH + r]);
            const int high = FN(count)(top + j * SH, 1, a);
            if (oh + j < a->out[1])
                STORE_Y(AVG ? v / (float)(high * wide) : v, to, (long)j * a->out[2]);
        }
    }
}

KERNEL FN(main)(X_SRC x, ulong x_off, Y_DST y, ulong y_off, const struct pool_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
