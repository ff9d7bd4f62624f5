/* dropout_train_ref.cl: y[i] = drawn(i) < least ? 0 : x[i] * scale, drawn(i) by Philox4x32-10 (philox.clh).
 *
 *   drawn(i) = word i % 4 of philox(counter (i / 4 low, i / 4 high, layer, step), key (seed low, seed high))
 *
 * i counts the elements of a dense x. key holds seed and step; of the step the low 32 bits count.
 * Layouts: x and y are `rows` items of `inner` contiguous elements, x_n and y_n apart.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "elementwise/elementwise_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "elementwise/philox.clh"
#ifndef FN
#define FN(x) dropout_train_ref_##x
#endif

void FN(body)(ulong group, SRC x, SRC_OF(long) key, DST y, const struct dropout_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const ulong seed = (ulong)key[0];
        SRC xr = x + (long)row * a->x_n;
        DST yr = y + (long)row * a->y_n;
        FOR_COLUMNS(i, first, a->inner)
        {
            const ulong at = (ulong)row * (ulong)a->inner + (ulong)i, quad = at >> 2;
            uint c0 = (uint)quad, c1 = (uint)(quad >> 32), c2 = (uint)a->layer, c3 = (uint)key[1];
            PHILOX(uint, c0, c1, c2, c3, (uint2)((uint)seed, (uint)(seed >> 32)));
            const uint2 pair = at & 2 ? (uint2)(c2, c3) : (uint2)(c0, c1);
            const uint mine = at & 1 ? pair.y : pair.x;
            yr[i] = (long)mine < a->least ? 0.0f : xr[i] * a->scale;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC_OF(long) key, ulong key_off, DST y, ulong y_off, const struct dropout_args a)
{
    FN(body)(GROUP, x + x_off, key + key_off, y + y_off, ARGS(a));
}
