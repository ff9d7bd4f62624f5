/* transpose_vector.cl: swaps two dimensions by tiles that are turned in registers, for CPU devices.
 *
 *   y[.., h, .., w] = x[.., w, .., h]: x is contiguous along h (`high` of them), y along w (`wide`)
 *
 * Index map: a work-item moves SPAN tiles of V x V, side by side along w; group = (plane * tiles along w + tile) *
 * tiles along h + tile. Tiles at the ends are moved element by element.
 * Layouts: any; up to 6 more dimensions number the planes; struct transpose_args, whose divisors are not used.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V 16 or 8, SPAN (default 4). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#ifndef SPAN
#define SPAN 4
#endif
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) transpose_vector_##x
#endif
#include "common/vec_turn.clh"

void FN(body)(ulong group, SRC x, DST y, const struct transpose_args *a)
{
    ulong rest = group / a->tiles[0];
    const int h0 = (int)(group % a->tiles[0]) * V, w0 = (int)(rest % a->tiles[1]) * (SPAN * V);
    rest /= a->tiles[1];
    SRC from = x + h0;
    DST to = y + h0 * a->y_step;
    for (int d = 0; d < a->rank; d++) {
        from += (long)(rest % a->tiles[2 + d]) * a->x[d];
        to += (long)(rest % a->tiles[2 + d]) * a->y[d];
        rest /= a->tiles[2 + d];
    }
    const int past = min(w0 + SPAN * V, a->wide);
    for (int w = w0; w < past; w += V) {
        const int high = min(V, a->high - h0), wide = min(V, past - w);
        if (high == V && wide == V)
            FN(turn_tile)(from + w * a->x_step, a->x_step, V, to + w, a->y_step, V);
        else
            FN(turn_part)(from + w * a->x_step, a->x_step, V, to + w, a->y_step, high, wide);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct transpose_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
