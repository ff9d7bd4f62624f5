/* nonzero_ref.cl: numbers of the elements that are not 0, in row-major order, and how many there are.
 *
 * count: counts[part] = elements of the part that are not 0
 * write: the numbers of a part's elements behind those of the parts before it; -1 behind the last one of all, where a
 *        part fills what is left of its own `part` places
 * Layouts: x as items of contiguous elements, x_n apart; numbers[elements], total[1]; struct nonzero_args.
 * Work-group: one work-item, a part. Local memory: none.
 * Defines: T (types.clh). */
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) nonzero_ref_##x
#endif

/* Where element i lies. */
long FN(place)(long i, const struct nonzero_args *a)
{
    return a->size == a->elements ? i : i / a->size * a->x_n + i % a->size;
}

void FN(count_body)(ulong group, SRC_OF(T) x, DST_OF(int) counts, const struct nonzero_args *a)
{
    const long from = (long)group * a->part, past = min(from + a->part, (long)a->elements);
    int count = 0;
    for (long i = from; i < past; i++)
        count += x[FN(place)(i, a)] != 0;
    counts[group] = count;
}

void FN(write_body)(ulong group, SRC_OF(T) x, SRC_OF(int) counts, DST_OF(long) numbers, DST_OF(long) total,
                    const struct nonzero_args *a)
{
    const long from = (long)group * a->part, past = min(from + a->part, (long)a->elements);
    long at = 0, all = 0;
    for (int i = 0; i < a->parts; i++) {
        at += i < (int)group ? counts[i] : 0;
        all += counts[i];
    }
    for (long i = from; i < past; i++)
        if (x[FN(place)(i, a)] != 0)
            numbers[at++] = i;
    for (long i = max(from, all); i < past; i++)
        numbers[i] = -1;
    if (group == 0)
        total[0] = all;
}

KERNEL FN(count)(SRC_OF(T) x, ulong x_off, DST_OF(int) counts, ulong counts_off, const struct nonzero_args a)
{
    FN(count_body)(GROUP, x + x_off, counts + counts_off, ARGS(a));
}

KERNEL FN(write)(SRC_OF(T) x, ulong x_off, SRC_OF(int) counts, ulong counts_off, DST_OF(long) numbers,
                 ulong numbers_off, DST_OF(long) total, ulong total_off, const struct nonzero_args a)
{
    FN(write_body)(GROUP, x + x_off, counts + counts_off, numbers + numbers_off, total + total_off, ARGS(a));
}
