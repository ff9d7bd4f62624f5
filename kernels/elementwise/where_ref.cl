/* where_ref.cl: y = cond ? a : b element by element, with NumPy broadcasting.
 *
 *   y[i] = cond[sum_d i_d * stride[0].of[d]] ? a[sum_d i_d * stride[1].of[d]] : b[sum_d i_d * stride[2].of[d]]
 *
 * Layouts: any strides, 0 along repeated dimensions, merged by the host; cond holds bytes.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: T (types.clh), STEP0 to STEP3 (strided.clh: cond, a, b, y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "common/strided_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) where_ref_##x
#endif

void FN(body)(ulong group, SRC_OF(uchar) cond, SRC_OF(T) a, SRC_OF(T) b, DST_OF(T) y, const struct strided_args *s)
{
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        ROW_STARTS_4(s, row, c0, a0, b0, y0)
        const long c_step = STEP_OF(s, 0), a_step = STEP_OF(s, 1), b_step = STEP_OF(s, 2), y_step = STEP_OF(s, 3);
        const int inner = s->size[s->rank - 1];
        FOR_COLUMNS(i, first, inner)
        y[y0 + i * y_step] = cond[c0 + i * c_step] ? a[a0 + i * a_step] : b[b0 + i * b_step];
    }
}

KERNEL FN(main)(SRC_OF(uchar) cond, ulong cond_off, SRC_OF(T) a, ulong a_off, SRC_OF(T) b, ulong b_off, DST_OF(T) y,
                ulong y_off, const struct strided_args s)
{
    FN(body)(GROUP, cond + cond_off, a + a_off, b + b_off, y + y_off, ARGS(s));
}
