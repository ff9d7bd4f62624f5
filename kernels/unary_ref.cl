/* unary_ref.cl: y = OP(x, p0, p1) element by element.
 *
 * Layouts: x and y are `rows` items of `inner` contiguous elements, x_n and y_n apart (one row when both
 * are dense).
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: OP (required: a name from activation.clh), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "clcnn.clh"
#include "args.h"
#include "activation.clh"
#include "rows.clh"
#ifndef FN
#define FN(x) unary_ref_##x
#endif
#ifndef OP
#error "OP is required: a function of activation.clh"
#endif

void FN(body)(ulong group, SRC x, DST y, const struct unary_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        SRC xr = x + (long)row * a->x_n;
        DST yr = y + (long)row * a->y_n;
        FOR_COLUMNS(i, first, a->inner)
            yr[i] = OP(xr[i], a->p0, a->p1);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct unary_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
