/* unary_ref.cl: y = OP(x, p0, p1) element by element.
 *
 * Layouts: x and y are `rows` items of `inner` contiguous elements, x_n and y_n apart (one row when both
 * are dense).
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: OP (required: a name from activation.clh or unary.clh, or from integer.clh where T is no float), T, R
 * (types.clh), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "elementwise/elementwise_args.h"
#include "common/activation.clh"
#include "common/types.clh"
#include "elementwise/unary.clh"
#include "common/integer.clh"
#include "common/rows.clh"
#ifndef FN
#define FN(x) unary_ref_##x
#endif
#ifndef OP
#error "OP is required: a function of activation.clh, unary.clh or integer.clh"
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(R) y, const struct unary_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        SRC_OF(T) xr = x + (long)row * a->x_n;
        DST_OF(R) yr = y + (long)row * a->y_n;
        FOR_COLUMNS(i, first, a->inner)
        yr[i] = OP(xr[i], a->p0, a->p1);
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(R) y, ulong y_off, const struct unary_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
