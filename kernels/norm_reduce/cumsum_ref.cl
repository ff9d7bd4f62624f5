/* cumsum_ref.cl: running sums along lines.
 *
 *   y[i] = sum over j <= i of x[j]; j < i when exclusive; from the other end when reverse
 *
 * Floats are added with the rounding errors carried along (Kahan), so that long lines stay as exact as short ones.
 * Layouts: any strides; struct line_args with the operands x, y.
 * Work-group: WG work-items over rows and pieces of lines as in rows.clh. Local memory: none.
 * Defines: T (types.clh), STEP0, STEP1 (strided.clh: x, y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#ifndef T
#define CARRY 1
#else
#define CARRY 0
#endif
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) cumsum_ref_##x
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct line_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        ROW_STARTS(s, row, x0, y0)
        const long x_step = STEP_OF(s, 0), y_step = STEP_OF(s, 1);
        FOR_COLUMNS(i, first, s->size[s->rank - 1])
        {
            T sum = 0, lost = 0;
            for (int k = 0; k < a->length; k++) {
                const long l = a->reverse ? a->length - 1 - k : k;
                const T v = x[x0 + i * x_step + l * a->step[0]], before = sum;
                if (CARRY) {
                    const T part = v - lost, next = sum + part;
                    lost = isinf((float)next) ? 0 : (next - sum) - part;
                    sum = next;
                } else {
                    sum = (T)((ulong)sum + (ulong)v);
                }
                y[y0 + i * y_step + l * a->step[1]] = a->exclusive ? before : sum;
            }
        }
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct line_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
