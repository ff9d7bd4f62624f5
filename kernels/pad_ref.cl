/* pad_ref.cl: constant padding of any dimension, or cropping where the amount is negative.
 *
 *   y[i] = x[i - begin] where that lies inside of x, else value
 *
 * Layouts: up to 8 dimensions with any strides, merged by the host where nothing is padded; struct pad_args.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "clcnn.clh"
#include "args.h"
#include "rows.clh"
#include "strided.clh"
#ifndef FN
#define FN(x) pad_ref_##x
#endif

void FN(body)(ulong group, SRC x, DST y, const struct pad_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const int last = a->rank - 1;
        INDEX rest = row;
        long x0 = 0, y0 = 0;
        bool inside = true;
        for (int d = last - 1; d >= 0; d--) {
            TAKE_DIGIT(digit, rest, a->y_size[d]);
            const long from = digit - a->begin[d];
            inside = inside && from >= 0 && from < a->x_size[d];
            x0 += from * a->x[d];
            y0 += digit * a->y[d];
        }
        const long begin = a->begin[last], end = inside ? begin + a->x_size[last] : begin;
        const long size = a->y_size[last], x_step = a->x[last], y_step = a->y[last];
        SRC xr = x + (inside ? x0 : 0);
        DST yr = y + y0;
#if defined(RUNS) && RUNS /* three plain loops instead of a choice inside of one */
        FOR_COLUMNS(before, first, min(begin, size))
            yr[before * y_step] = a->value;
        const long past = min(first + ELEMS, min(end, size));
        for (long i = max(first, begin); i < past; i++)
            yr[i * y_step] = xr[(i - begin) * x_step];
        const long rest_end = min(first + ELEMS, size);
        for (long i = max(first, end); i < rest_end; i++)
            yr[i * y_step] = a->value;
#else
        FOR_COLUMNS(i, first, size)
            yr[i * y_step] = i >= begin && i < end ? xr[(i - begin) * x_step] : a->value;
#endif
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct pad_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
