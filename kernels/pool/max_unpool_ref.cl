/* max_unpool_ref.cl: values put back to where max_pool_indices found them.
 *
 * fill: y = 0
 * main: y[indices[i]] = x[i], an index counting the elements of all of y, items one after the other; others are dropped
 *
 * Layouts: items of contiguous elements with batch strides; struct unpool_args.
 * Work-group: WG work-items over rows (items) and pieces as in rows.clh. Local memory: none.
 * Defines: I (type of indices: long, the default, or int), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "pool/pool_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#ifndef FN
#define FN(x) max_unpool_ref_##x
#endif
#ifndef I
#define I long
#endif

void FN(fill_body)(ulong group, DST y, const struct unpool_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        FOR_COLUMNS(i, first, a->inner)
        y[(long)row * a->y_n + i] = 0.0f;
    }
}

void FN(body)(ulong group, SRC x, SRC_OF(I) indices, DST y, const struct unpool_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        FOR_COLUMNS(i, first, a->inner)
        {
            const long at = indices[(long)row * a->i_n + i];
            if (at >= 0 && at < a->count)
                y[at / a->size * a->y_n + at % a->size] = x[(long)row * a->x_n + i];
        }
    }
}

KERNEL FN(fill)(DST y, ulong y_off, const struct unpool_args a)
{
    FN(fill_body)(GROUP, y + y_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC_OF(I) indices, ulong indices_off, DST y, ulong y_off,
                const struct unpool_args a)
{
    FN(body)(GROUP, x + x_off, indices + indices_off, y + y_off, &a);
}
