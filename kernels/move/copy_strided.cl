/* copy_strided.cl: y[i] = x[i] where both have the same sizes and each its own strides (0 repeats,
 * negative reverses): slice, concat, split, transpose, expand, and reshapes that cannot share memory.
 *
 * Layouts: any strides of up to 8 dimensions, merged by the host.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: T (types.clh), STEP0, STEP1 (strided.clh: x, y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "common/strided_args.h"
#include "common/rows.clh"
#include "common/types.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) copy_strided_##x
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct strided_args *s)
{
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        ROW_STARTS(s, row, x0, y0)
        SRC_OF(T) xr = x + x0;
        DST_OF(T) yr = y + y0;
        const long x_step = STEP_OF(s, 0), y_step = STEP_OF(s, 1);
        const int inner = s->size[s->rank - 1];
        FOR_COLUMNS(i, first, inner)
        yr[i * y_step] = xr[i * x_step];
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct strided_args s)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(s));
}
