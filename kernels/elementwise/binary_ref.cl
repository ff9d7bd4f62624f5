/* binary_ref.cl: y = OP(a, b) element by element, with NumPy broadcasting.
 *
 *   y[i] = OP(a[sum_d i_d * stride[0].of[d]], b[sum_d i_d * stride[1].of[d]]), strides 0 along repeated dimensions
 *
 * Layouts: any strides; the host merges dimensions, so equal dense shapes are one row.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: OP (required: a name from binary.clh, or from integer.clh where T is no float), T, R (types.clh), STEP0,
 * STEP1, STEP2 (strided.clh: a, b, y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "common/strided_args.h"
#include "elementwise/binary.clh"
#include "common/types.clh"
#include "common/integer.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) binary_ref_##x
#endif
#ifndef OP
#error "OP is required: a function of binary.clh or integer.clh"
#endif

void FN(body)(ulong group, SRC_OF(T) a, SRC_OF(T) b, DST_OF(R) y, const struct strided_args *s)
{
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        INDEX rest = row;
        long a0 = 0, b0 = 0, y0 = 0;
        for (int d = s->rank - 2; d >= 0; d--) {
            TAKE_DIGIT(digit, rest, s->size[d]);
            a0 += digit * s->stride[0].of[d];
            b0 += digit * s->stride[1].of[d];
            y0 += digit * s->stride[2].of[d];
        }
        SRC_OF(T) ar = a + a0;
        SRC_OF(T) br = b + b0;
        DST_OF(R) yr = y + y0;
        const long a_step = STEP_OF(s, 0), b_step = STEP_OF(s, 1), y_step = STEP_OF(s, 2);
        const int inner = s->size[s->rank - 1];
        FOR_COLUMNS(i, first, inner)
        yr[i * y_step] = OP(ar[i * a_step], br[i * b_step]);
    }
}

KERNEL FN(main)(SRC_OF(T) a, ulong a_off, SRC_OF(T) b, ulong b_off, DST_OF(R) y, ulong y_off,
                const struct strided_args s)
{
    FN(body)(GROUP, a + a_off, b + b_off, y + y_off, ARGS(s));
}
