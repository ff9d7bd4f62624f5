/* unary_quads.cl: y = OP(x, p0, p1) element by element, four elements a work-item, for GPUs.
 *
 * Layouts: x and y with any strides; dense ones are one dimension.
 * Work-group: 4 * WG elements as in walk.clh. Local memory: none.
 * Defines: OP (required: a name from activation.clh or unary.clh, or from integer.clh where T is no float), T, R
 * (types.clh), RANK (walk.clh), WG. */
#include "common/clcnn.clh"
#include "elementwise/elementwise_args.h"
#include "common/activation.clh"
#include "common/types.clh"
#include "elementwise/unary.clh"
#include "common/integer.clh"
#ifndef FN
#define FN(x) unary_quads_##x
#endif
#ifndef OP
#error "OP is required: a function of activation.clh, unary.clh or integer.clh"
#endif
#undef WALK_OPERANDS
#define WALK_OPERANDS 2
#include "common/walk.clh"

__attribute__((always_inline)) void FN(one)(uint i, SRC_OF(T) x, DST_OF(R) y, const struct unary_walk_args *a)
{
    int at[2];
    if (i < (uint)a->walk.count) {
        FN(places)(i, at, &a->walk);
        y[at[1]] = OP(x[at[0]], a->p0, a->p1);
    }
}

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(R) y, const struct unary_walk_args *a)
{
    const float p0 = a->p0, p1 = a->p1;
    const bool whole = a->walk.even[1] && WALK_ALIGNED(y, R4);
    const uint first = WALK_FOUR(group);
    if (whole && first + 3 < (uint)a->walk.count) {
        int at[2];
        FN(places)(first, at, &a->walk);
        const T4 v = FN(four)(x, at[0], 0, &a->walk);
        *(global R4 *)(y + at[1]) =
            (R4)((R)OP(v.x, p0, p1), (R)OP(v.y, p0, p1), (R)OP(v.z, p0, p1), (R)OP(v.w, p0, p1));
    } else {
        for (int k = 0; k < 4; k++)
            FN(one)(whole ? first + k : WALK_ONE(group, k), x, y, a);
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(R) y, ulong y_off, const struct unary_walk_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
