/* copy_quads.cl: y[i] = x[i] where both have the same sizes and each its own strides (0 repeats, negative reverses),
 * four elements a work-item, for GPUs: slice, concat, split, expand, and transposes that tiles do not suit.
 *
 * Layouts: any strides, dimensions merged by the host.
 * Work-group: 4 * WG elements as in walk.clh. Local memory: none.
 * Defines: T (types.clh), RANK (walk.clh), WG. */
#include "common/clcnn.clh"
#include "common/types.clh"
#ifndef FN
#define FN(x) copy_quads_##x
#endif
#undef WALK_OPERANDS
#define WALK_OPERANDS 2
#include "common/walk.clh"

__attribute__((always_inline)) void FN(one)(uint i, SRC_OF(T) x, DST_OF(T) y, const struct walk_args *s)
{
    int at[2];
    if (i < (uint)s->count) {
        FN(places)(i, at, s);
        y[at[1]] = x[at[0]];
    }
}

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct walk_args *s)
{
    const bool whole = s->even[1] && WALK_ALIGNED(y, T4);
    const uint first = WALK_FOUR(group);
    if (whole && first + 3 < (uint)s->count) {
        int at[2];
        FN(places)(first, at, s);
        *(global T4 *)(y + at[1]) = FN(four)(x, at[0], 0, s);
    } else {
        for (int k = 0; k < 4; k++)
            FN(one)(whole ? first + k : WALK_ONE(group, k), x, y, s);
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct walk_args s)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(s));
}
