/* grid_sample_ref.cl: x at the places that a grid gives, as torch.nn.functional.grid_sample defines it.
 *
 *   at = ((g + 1) * size - 1) / 2, or (g + 1) / 2 * (size - 1) with ALIGN, for each coordinate g of grid[n][o]
 *   y[n][c][o] = x[n][c](at), blended from the 2 or 4 elements around in each dimension, or the nearest one
 *
 * Outside x is 0 (PADDING 0), repeats its edge (1), or is mirrored (2); cubic asks that of every element, the others of
 * the coordinate. The cubic is that of Keys with slope -0.75. A coordinate that is NaN lies outside.
 * Layouts: N,C,(D,)H,W and N,(D,)H,W,coordinates (x first) with batch strides; struct grid_args.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: KIND, PADDING, ALIGN, DIMS (grid.clh), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) grid_sample_ref_##x
#endif
#include "vision/grid.clh"

void FN(body)(ulong group, SRC x, SRC grid, DST y, const struct grid_args *a)
{
    const int taps = KIND == 1 ? 1 : KIND == 0 ? 2 : 4;
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        INDEX rest = row;
        TAKE_DIGIT(oh, rest, a->out[1]);
        TAKE_DIGIT(od, rest, a->out[0]);
        TAKE_DIGIT(c, rest, a->c);
        const long n = rest, line = (od * a->out[1] + oh) * a->out[2];
        SRC xc = x + n * a->x_n + c * a->in[0] * a->in[1] * a->in[2];
        FOR_COLUMNS(ow, first, a->out[2])
        {
            SRC g = grid + n * a->grid_n + (line + ow) * DIMS;
            const struct FN(taps) w = FN(taps_of)(g[0], a->in[2]), h = FN(taps_of)(g[1], a->in[1]);
            struct FN(taps) d;
            d.first = 0;
            d.weight[0] = 1.0f;
            if (DIMS == 3)
                d = FN(taps_of)(g[DIMS - 1], a->in[0]);
            float sum = 0.0f;
            for (int z = 0; z < (DIMS == 3 ? taps : 1); z++)
                for (int v = 0; v < taps; v++) {
                    const int zi = DIMS == 3 ? FN(index)(d.first + z, a->in[0]) : 0;
                    const int vi = FN(index)(h.first + v, a->in[1]);
                    float some = 0.0f;
                    for (int u = 0; u < taps; u++) {
                        const int ui = FN(index)(w.first + u, a->in[2]);
                        if (zi >= 0 && vi >= 0 && ui >= 0)
                            some += w.weight[u] * xc[((long)zi * a->in[1] + vi) * a->in[2] + ui];
                    }
                    sum += d.weight[z] * h.weight[v] * some;
                }
            y[n * a->y_n + c * a->out[0] * a->out[1] * a->out[2] + line + ow] = sum;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC grid, ulong grid_off, DST y, ulong y_off, const struct grid_args a)
{
    FN(body)(GROUP, x + x_off, grid + grid_off, y + y_off, &a);
}
