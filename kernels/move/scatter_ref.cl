/* scatter_ref.cl: slices of x along a dimension changed by those of updates, at places that indices tell.
 *
 * list: a work-item goes through all indices, from the last one, and lists the updates of its `part` slices:
 * first[slice]
 *       is the first of them, next[update] the one after it, -1 the end
 * main: y[i] = x[i], changed by each update in its slice's list, in order
 * Layouts: any strides; struct scatter_args with the operands x, first, updates, y.
 * Work-group: one work-item (list); WG work-items over rows and pieces as in rows.clh (main). Local memory: none.
 * Defines: T (types.clh), I (type of indices: long, the default, or int), REDUCE (attribute reduction: 0 none, the
 * default, 1 add, 2 mul, 3 max, 4 min), STEP0, STEP1, STEP2, STEP3 (strided.clh), WG, LANES, ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "common/clcnn.clh"
#include "move/move_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) scatter_ref_##x
#endif
#ifndef I
#define I long
#endif
#ifndef REDUCE
#define REDUCE 0
#endif

void FN(list_body)(ulong group, SRC_OF(I) index, DST_OF(int) first, DST_OF(int) next, const struct scatter_args *a)
{
    const long from = (long)group * a->part, past = min(from + a->part, (long)a->slices);
    for (long i = from; i < past; i++)
        first[i] = -1;
    for (int i = a->updates - 1; i >= 0; i--) {
        long at = index[i * a->index_step];
        at += at < 0 ? a->slices : 0;
        if (at >= from && at < past) {
            next[i] = first[at];
            first[at] = i;
        }
    }
}

T FN(changed)(T old, T update)
{
    if (REDUCE == 1)
        return old + update;
    if (REDUCE == 2)
        return old * update;
    if (REDUCE == 3)
        return old < update || update != update ? update : old;
    if (REDUCE == 4)
        return old > update || update != update ? update : old;
    return update;
}

void FN(body)(ulong group, SRC_OF(T) x, SRC_OF(int) first, SRC_OF(int) next, SRC_OF(T) updates, DST_OF(T) y,
              const struct scatter_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long column = FIRST_COLUMN(group, s->pieces);
        ROW_STARTS_4(s, row, x0, f0, u0, y0)
        const long x_step = STEP_OF(s, 0), f_step = STEP_OF(s, 1), u_step = STEP_OF(s, 2), y_step = STEP_OF(s, 3);
        FOR_COLUMNS(i, column, s->size[s->rank - 1])
        {
            T value = x[x0 + i * x_step];
            for (int k = first[f0 + i * f_step]; k >= 0; k = next[k])
                value = FN(changed)(value, updates[u0 + i * u_step + k * a->update_step]);
            y[y0 + i * y_step] = value;
        }
    }
}

KERNEL FN(list)(SRC_OF(I) index, ulong index_off, DST_OF(int) first, ulong first_off, DST_OF(int) next, ulong next_off,
                const struct scatter_args a)
{
    FN(list_body)(GROUP, index + index_off, first + first_off, next + next_off, ARGS(a));
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, SRC_OF(int) first, ulong first_off, SRC_OF(int) next, ulong next_off,
                SRC_OF(T) updates, ulong updates_off, DST_OF(T) y, ulong y_off, const struct scatter_args a)
{
    FN(body)(GROUP, x + x_off, first + first_off, next + next_off, updates + updates_off, y + y_off, ARGS(a));
}
