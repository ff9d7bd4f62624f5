/* transpose_tiled.cl: swaps two dimensions by tiles, so that reads and writes are both contiguous.
 *
 *   y[.., h, .., w] = x[.., w, .., h]: x is contiguous along h (`high` of them), y along w (`wide`)
 *
 * Layouts: any; up to 6 more dimensions number the planes; struct transpose_args.
 * Work-group: SPAN tiles of TILE x TILE of one plane, side by side along h. All loads are begun before the first is
 * waited for. Local memory: TILE * (SPAN * TILE + 1) floats.
 * Defines: TILE (a power of two that divides WG and whose square is a multiple of WG; default 32), SPAN (default 1),
 * WG. */
#include "common/clcnn.clh"
#include "common/walk_divide.clh"
#include "move/move_args.h"
#ifndef FN
#define FN(x) transpose_tiled_##x
#endif
#ifndef TILE
#define TILE 32
#endif
#ifndef SPAN
#define SPAN 1
#endif
#define HIGH (SPAN * TILE)
#define EACH (TILE * TILE / WG) /* elements of a tile that a work-item moves */
#define SCRATCH ((TILE * (HIGH + 1) + 3) / 4)

void FN(body)(ulong group, SRC x, DST y, const struct transpose_args *a, local float4 *scratch)
{
    local float *tile = (local float *)scratch;
    uint rest = (uint)group;
    long x0 = 0, y0 = 0;
    /* tiles along high, tiles along wide, then planes; GPUs divide by multiplication */
    uint upper = WALK_DIVIDE(rest, a, 0);
    const int h0 = (int)(rest - upper * (uint)a->tiles[0]) * HIGH;
    rest = upper;
    upper = WALK_DIVIDE(rest, a, 1);
    const int w0 = (int)(rest - upper * (uint)a->tiles[1]) * TILE;
    rest = upper;
#pragma unroll
    for (int d = 0; d < 6; d++) { /* places that are constant: no copy of the block to pick from */
        if (d < a->rank) {
            upper = WALK_DIVIDE(rest, a, 2 + d);
            const long digit = rest - upper * (uint)a->tiles[2 + d];
            x0 += digit * a->x[d];
            y0 += digit * a->y[d];
            rest = upper;
        }
    }
    const int column = LANE % TILE, row = LANE / TILE;
    SRC from = x + x0;
    DST to = y + y0 + h0 * a->y_step + w0;
    float v[SPAN * EACH];
    /* the last row and column stand for those past the end: loads without a condition can all be begun at once */
#pragma unroll
    for (int i = 0; i < SPAN * EACH; i++) {
        const int h = min(h0 + i / EACH * TILE + column, a->high - 1);
        const int w = min(w0 + i % EACH * (WG / TILE) + row, a->wide - 1);
        v[i] = from[w * a->x_step + h];
    }
#pragma unroll
    for (int i = 0; i < SPAN * EACH; i++)
        tile[(i % EACH * (WG / TILE) + row) * (HIGH + 1) + i / EACH * TILE + column] = v[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < SPAN * EACH; i++) {
        const int h = i * (WG / TILE) + row;
        if (h0 + h < a->high && w0 + column < a->wide)
            to[h * a->y_step + column] = tile[column * (HIGH + 1) + h];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct transpose_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a), scratch);
}
