/* reduce_typed.cl: sums, products, maxima and minima of elements that are no floats, and products of floats.
 *
 *   y[kept] = RED over all reduced dimensions of x, from the first element on
 *
 * Layouts: any strides; struct typed_reduce_args with the operands x, y.
 * Work-group: WG work-items over rows and pieces of outputs as in rows.clh. Local memory: none.
 * Defines: RED (required: a function of integer.clh, or bin_mul for floats), T (types.clh), STEP0, STEP1 (strided.clh:
 * x, y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#include "elementwise/binary.clh"
#include "common/integer.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) reduce_typed_##x
#endif
#ifndef RED
#error "RED is required: a function of integer.clh, or bin_mul"
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct typed_reduce_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        ROW_STARTS(s, row, x0, y0)
        const long x_step = STEP_OF(s, 0), y_step = STEP_OF(s, 1);
        FOR_COLUMNS(i, first, s->size[s->rank - 1])
        {
            SRC_OF(T) from = x + x0 + i * x_step;
            T all = from[0];
            for (long n = 1; n < a->count; n++) {
                ulong position = (ulong)n;
                long at = 0;
                for (int d = a->rank - 1; d >= 0; d--) {
                    at += (long)(position % (ulong)a->size[d]) * a->x[d];
                    position /= (ulong)a->size[d];
                }
                const T v = from[at];
                all = RED(all, v);
            }
            y[y0 + i * y_step] = all;
        }
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct typed_reduce_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
