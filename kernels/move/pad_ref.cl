/* pad_ref.cl: padding of any dimension. What is cropped is no longer part of x here.
 *
 *   y[i] = x[i - begin] where that lies inside of x, else value, or x[SOURCE(i - begin)]
 *
 * Layouts: up to 8 dimensions with any strides, merged by the host where nothing is padded; struct pad_args.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: T (types.clh), SOURCE (reflect, edge or wrap: where a padded element comes from; none for value), WG, LANES,
 * ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) pad_ref_##x
#endif

#ifdef SOURCE
long FN(edge)(long i, long size)
{
    return clamp(i, 0L, size - 1);
}

long FN(wrap)(long i, long size)
{
    const long r = i % size;
    return r < 0 ? r + size : r;
}

/* Mirrored at the first and the last element, which are not repeated, as often as it takes. */
long FN(reflect)(long i, long size)
{
    const long period = size > 1 ? 2 * (size - 1) : 1, r = FN(wrap)(i, period);
    return r < size ? r : period - r;
}
#define SOURCE_NAME(name) FN(name)
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct pad_args *a)
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
#ifdef SOURCE
            const long from = SOURCE_NAME(SOURCE)(digit - a->begin[d], a->x_size[d]);
#else
            const long from = digit - a->begin[d];
#endif
            inside = inside && from >= 0 && from < a->x_size[d];
            x0 += from * a->x[d];
            y0 += digit * a->y[d];
        }
        const long begin = a->begin[last], end = inside ? begin + a->x_size[last] : begin;
        const long size = a->y_size[last], x_step = a->x[last], y_step = a->y[last];
#ifdef SOURCE
#define BESIDE(i) (xr[SOURCE_NAME(SOURCE)((i)-begin, a->x_size[last]) * x_step])
#else
        const T value = (T)a->value;
#define BESIDE(i) value
#endif
        SRC_OF(T) xr = x + (inside ? x0 : 0);
        DST_OF(T) yr = y + y0;
#if defined(RUNS) && RUNS /* three plain loops instead of a choice inside of one */
        FOR_COLUMNS(before, first, min(begin, size))
        yr[before * y_step] = BESIDE(before);
        const long past = min(first + ELEMS, min(end, size));
        for (long i = max(first, begin); i < past; i++)
            yr[i * y_step] = xr[(i - begin) * x_step];
        const long rest_end = min(first + ELEMS, size);
        for (long i = max(first, end); i < rest_end; i++)
            yr[i * y_step] = BESIDE(i);
#else
        FOR_COLUMNS(i, first, size)
        yr[i * y_step] = i >= begin && i < end ? xr[(i - begin) * x_step] : BESIDE(i);
#endif
#undef BESIDE
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct pad_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
