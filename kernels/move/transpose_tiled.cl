/* transpose_tiled.cl: swaps two dimensions by tiles, so that reads and writes are both contiguous.
 *
 *   y[.., h, .., w] = x[.., w, .., h]: x is contiguous along h (`high` of them), y along w (`wide`)
 *
 * Layouts: any; up to 6 more dimensions number the planes; struct transpose_args.
 * Work-group: one TILE x TILE tile of one plane. Local memory: TILE * (TILE + 1) floats.
 * Defines: TILE (a power of two that divides WG and whose square is a multiple of WG; default 32), WG. */
#include "common/clcnn.clh"
#include "move/move_args.h"
#ifndef FN
#define FN(x) transpose_tiled_##x
#endif
#ifndef TILE
#define TILE 32
#endif
#define TILE_DIVIDE(n, a, d) ((mul_hi((n), (uint)(a)->factor[d]) + (n)) >> (uint)(a)->shift[d])
#define SCRATCH ((TILE * (TILE + 1) + 3) / 4)

void FN(body)(ulong group, SRC x, DST y, const struct transpose_args *a, local float4 *scratch)
{
    local float *tile = (local float *)scratch;
    uint rest = (uint)group;
    long x0 = 0, y0 = 0;
    /* tiles along high, tiles along wide, then planes; GPUs divide by multiplication */
    uint upper = TILE_DIVIDE(rest, a, 0);
    const int h0 = (int)(rest - upper * (uint)a->tiles[0]) * TILE;
    rest = upper;
    upper = TILE_DIVIDE(rest, a, 1);
    const int w0 = (int)(rest - upper * (uint)a->tiles[1]) * TILE;
    rest = upper;
    for (int d = 0; d < a->rank; d++) {
        upper = TILE_DIVIDE(rest, a, 2 + d);
        const long digit = rest - upper * (uint)a->tiles[2 + d];
        x0 += digit * a->x[d];
        y0 += digit * a->y[d];
        rest = upper;
    }
    const int column = LANE % TILE;
    for (int row = LANE / TILE; row < TILE; row += WG / TILE)
        if (h0 + column < a->high && w0 + row < a->wide)
            tile[row * (TILE + 1) + column] = x[x0 + (w0 + row) * a->x_step + h0 + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int row = LANE / TILE; row < TILE; row += WG / TILE)
        if (h0 + row < a->high && w0 + column < a->wide)
            y[y0 + (h0 + row) * a->y_step + w0 + column] = tile[column * (TILE + 1) + row];
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct transpose_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a), scratch);
}
