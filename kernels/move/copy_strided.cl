/* copy_strided.cl: y[i] = x[i] where both have the same sizes and each its own strides (0 repeats,
 * negative reverses): slice, concat, split, transpose, expand, and reshapes that cannot share memory.
 *
 * Layouts: any strides of up to 8 dimensions, merged by the host.
 * Index map: `main`, rows and pieces as in rows.clh; `runs`, group = `pieces` rows, each of a stretch in x and in y.
 * Work-group: `main` WG work-items, `runs` 1 (CPU devices). Local memory: none.
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

/* Each row is found from the one before it: divisions take longer than a short row. */
void FN(runs_body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct strided_args *s)
{
    const int last = s->rank - 1, inner = s->size[last];
    const long first = (long)group * s->pieces, past = min(first + s->pieces, s->rows);
    int at[8];
    long rest = first;
    for (int d = last - 1; d >= 0; d--) {
        at[d] = (int)(rest % s->size[d]);
        rest /= s->size[d];
        x += at[d] * s->stride[0].of[d];
        y += at[d] * s->stride[1].of[d];
    }
    for (long row = first; row < past; row++) {
        int i = 0;
        for (; i + 8 <= inner; i += 8)
            vstore8(vload8(0, x + i), 0, y + i);
        for (; i < inner; i++)
            y[i] = x[i];
        for (int d = last - 1; d >= 0; d--) {
            x += s->stride[0].of[d];
            y += s->stride[1].of[d];
            if (++at[d] < s->size[d])
                break;
            at[d] = 0;
            x -= s->size[d] * s->stride[0].of[d];
            y -= s->size[d] * s->stride[1].of[d];
        }
    }
}

KERNEL FN(runs)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct strided_args s)
{
    FN(runs_body)(GROUP, x + x_off, y + y_off, ARGS(s));
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct strided_args s)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(s));
}
