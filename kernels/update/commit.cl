/* commit.cl: the new value of a state, or the old one.
 *
 *   state[i] = commit && when[0] ? value[i] : state[i]
 *
 * Layouts: value is `rows` items of `inner` contiguous elements, value_n apart; the state is dense. They share no
 * memory.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: T (types.clh), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "update/update_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#ifndef FN
#define FN(x) commit_##x
#endif

void FN(body)(ulong group, SRC_OF(uchar) when, SRC_OF(T) value, DST_OF(T) state, const struct commit_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const bool commit = a->gate.commit && (!a->gate.when || when[0]);
        SRC_OF(T) from = value + (long)row * a->value_n;
        DST_OF(T) to = state + (long)row * a->inner;
        FOR_COLUMNS(i, first, a->inner)
        to[i] = commit ? from[i] : to[i];
    }
}

KERNEL FN(main)(SRC_OF(uchar) when, ulong when_off, SRC_OF(T) value, ulong value_off, DST_OF(T) state, ulong state_off,
                const struct commit_args a)
{
    FN(body)(GROUP, when + when_off, value + value_off, state + state_off, &a);
}
