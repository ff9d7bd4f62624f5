/* gather_ref.cl: elements of x picked by indices: gather, gather_elements and gather_nd.
 *
 *   y[i] = x[sum_d i_d * walk.stride[0].of[d] + sum_k index(i, k) * axis_step[k]]
 *   index(i, k) = index[sum_d i_d * walk.stride[1].of[d] + k * index_step], counted from the end where it is negative
 *
 * An index outside of its dimension gives OUTSIDE (types.clh).
 * Layouts: any strides, 0 where an operand does not have a dimension of y; struct gather_args.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: T (types.clh), I (type of indices: long, the default, or int), STEP0, STEP1, STEP2 (strided.clh: x, index,
 * y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) gather_ref_##x
#endif
#ifndef I
#define I long
#endif

/* Where the indices at index0 point to, -1 where one of them is outside of its dimension. */
long FN(place)(SRC_OF(I) index, long x0, const struct gather_args *a)
{
    long at = x0;
    bool inside = true;
    for (int k = 0; k < a->axes; k++) {
        long picked = index[k * a->index_step];
        picked += picked < 0 ? a->axis_size[k] : 0;
        inside = inside && picked >= 0 && picked < a->axis_size[k];
        at += picked * a->axis_step[k];
    }
    return inside ? at : -1;
}

void FN(body)(ulong group, SRC_OF(T) x, SRC_OF(I) index, DST_OF(T) y, const struct gather_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        INDEX rest = row;
        long x0 = 0, index0 = 0, y0 = 0;
        for (int d = s->rank - 2; d >= 0; d--) {
            TAKE_DIGIT(digit, rest, s->size[d]);
            x0 += digit * s->stride[0].of[d];
            index0 += digit * s->stride[1].of[d];
            y0 += digit * s->stride[2].of[d];
        }
        const long x_step = STEP_OF(s, 0), y_step = STEP_OF(s, 2);
#if STEP1
        const long i_step = STEP_OF(s, 1);
#endif
        const int inner = s->size[s->rank - 1];
#if STEP1 == 0 /* the same for the whole row */
        const long begin = FN(place)(index + index0, x0, a);
        SRC_OF(T) xr = x + max(begin, 0L);
        DST_OF(T) yr = y + y0;
        if (begin >= 0) {
            FOR_COLUMNS(i, first, inner)
            yr[i * y_step] = xr[i * x_step];
        } else {
            FOR_COLUMNS(i, first, inner)
            yr[i * y_step] = (T)OUTSIDE;
        }
#else
        FOR_COLUMNS(i, first, inner)
        {
            const long at = FN(place)(index + index0 + i * i_step, x0 + i * x_step, a);
            y[y0 + i * y_step] = at >= 0 ? x[max(at, 0L)] : (T)OUTSIDE;
        }
#endif
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, SRC_OF(I) index, ulong index_off, DST_OF(T) y, ulong y_off,
                const struct gather_args a)
{
    FN(body)(GROUP, x + x_off, index + index_off, y + y_off, ARGS(a));
}
