/* pool_tile.cl: max and average pooling over large windows of 2-D maps, for GPUs: windows along the width first, which
 * are kept, then along the height what is left of the rows.
 *
 *   y[n][c][oh][ow] = max or mean over r, s of x[n][c][oh*sh - ph + r][ow*sw - pw + s], taps outside left out
 *
 * The mean divides by the taps inside the input, or with include_pad by those inside the padded input. NaN wins a max.
 * Layouts: NCHW with batch strides. Index map: group = (planes of maps * tiles down + tile) * tiles across + tile.
 * Work-group: WG items. Local memory: ROOM floats, MET rows of WIDE for each plane.
 * Defines: WG (any), AVG (0: max, 1: average), KH, KW (window), SH, SW (strides), HIGH, WIDE (output rows and columns
 * of a tile), MET (rows of x that the windows of a tile may meet): any from 1 on; ROOM (planes * MET * WIDE or more, a
 * multiple of 4); X_HALF, Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/maps.clh"
#ifndef FN
#define FN(x) pool_tile_##x
#endif
#include "pool/pool_fold.clh"
#ifndef HIGH
#define HIGH 8
#endif
#ifndef WIDE
#define WIDE 8
#endif
#ifndef MET
#define MET 12
#endif
#ifndef ROOM
#define ROOM 2048
#endif
#define SCRATCH (ROOM / 4)

/* Where a map (n, c) of `size` pixels begins. */
long FN(map_at)(long map, long batch_stride, long size, int channels)
{
    if (batch_stride == size * channels)
        return map * size;
    const uint n = (uint)map / (uint)channels;
    return n * batch_stride + (map - (long)n * channels) * size;
}

void FN(body)(ulong group, X_SRC x, Y_DST y, const struct pool_tile_args *t, local float4 *scratch)
{
    const struct pool_args *a = &t->pool;
    const uint rest = (uint)(group / (uint)t->across), across = (uint)(group - (ulong)rest * (uint)t->across);
    const uint some = rest / (uint)t->down, down = rest - some * (uint)t->down;
    const long map = (long)some * t->planes;
    const int planes = (int)min((long)t->planes, (long)t->maps - map);
    const int high = (int)down * HIGH, wide = (int)across * WIDE; /* the tile's first output */
    const int top = high * SH - a->pad[1], low = max(top, 0), rows = min(MET, a->in[1] - low);
    local float *lines = (local float *)scratch;
    for (int i = LANE; i < planes * (MET * WIDE); i += WG) {
        const int row = i / WIDE, plane = row / MET, at = row - plane * MET;
        const int left = (wide + i - row * WIDE) * SW - a->pad[2];
        X_SRC from =
            x + FN(map_at)(map + plane, a->x_n, (long)a->in[1] * a->in[2], a->c) + ((long)(low + at) * a->in[2] + left);
        float v = NOTHING;
#pragma unroll 16
        for (int s = 0; s < KW; s++)
            v = FN(combine)(v, at < rows && left + s >= 0 && left + s < a->in[2] ? LOAD_X(from, s) : NOTHING);
        lines[i] = v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = LANE; i < planes * (HIGH * WIDE); i += WG) {
        const int row = i / WIDE, plane = row / HIGH, at = row - plane * HIGH, column = i - row * WIDE;
        const int oh = high + at, ow = wide + column, first = top + at * SH - low;
        const local float *line = lines + plane * MET * WIDE + column;
        float v = NOTHING;
#pragma unroll 16
        for (int r = 0; r < KH; r++)
            v = FN(combine)(v, first + r >= 0 && first + r < rows ? line[(first + r) * WIDE] : NOTHING);
        const float taps =
            AVG ? (float)(FN(count)(oh * SH - a->pad[1], 1, a) * FN(count)(ow * SW - a->pad[2], 2, a)) : 1.0f;
        if (oh < a->out[1] && ow < a->out[2])
            STORE_Y(AVG ? v / taps : v, y,
                    FN(map_at)(map + plane, a->y_n, (long)a->out[1] * a->out[2], a->c) + (long)oh * a->out[2] + ow);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(X_SRC x, ulong x_off, Y_DST y, ulong y_off, const struct pool_tile_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, &a, scratch);
}
