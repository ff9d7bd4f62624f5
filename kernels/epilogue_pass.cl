/* epilogue_pass.cl: y = act(y + bias[channel] + add) in place, after a producer that cannot do it itself.
 *
 * Layouts: rows of `inner` contiguous elements: the planes of an N,C,spatial tensor (one bias a row), or
 * the rows of a matrix (one bias a column); struct channel_args. add has y's shape and a batch stride of
 * its own.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#include "rows.clh"
#ifndef FN
#define FN(x) epilogue_pass_##x
#endif

void FN(body)(ulong group, SRC bias, SRC add, DST y, const struct channel_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const INDEX n = row / (INDEX)a->per_item;
        const long r = row - n * (INDEX)a->per_item;
        SRC br = bias + r * a->row_step;
        SRC ar = add + (long)n * a->add_n + r * a->inner;
        DST yr = y + (long)n * a->y_n + r * a->inner;
        if (a->column_step == 0) {
            FOR_COLUMNS(i, first, a->inner)
                yr[i] = EPILOGUE(yr[i], br, 0, ar, i, a);
        } else {
            FOR_COLUMNS(i, first, a->inner)
                yr[i] = EPILOGUE(yr[i], br, i, ar, i, a);
        }
    }
}

KERNEL FN(main)(SRC bias, ulong bias_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct channel_args a)
{
    FN(body)(GROUP, bias + bias_off, add + add_off, y + y_off, &a);
}
