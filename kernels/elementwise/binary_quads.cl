/* binary_quads.cl: y = OP(a, b) element by element, with NumPy broadcasting, four elements a work-item, for GPUs.
 *
 *   y[i] = OP(a[sum_d i_d * stride[0].of[d]], b[sum_d i_d * stride[1].of[d]]), strides 0 along repeated dimensions
 *
 * Layouts: any strides; the host merges dimensions, so equal dense shapes are one.
 * Work-group: 4 * WG elements as in walk.clh. Local memory: none.
 * Defines: OP (required: a name from binary.clh, or from integer.clh where T is no float), T, R (types.clh), RANK
 * (walk.clh), WG. */
#include "common/clcnn.clh"
#include "elementwise/binary.clh"
#include "common/types.clh"
#include "common/integer.clh"
#ifndef FN
#define FN(x) binary_quads_##x
#endif
#ifndef OP
#error "OP is required: a function of binary.clh or integer.clh"
#endif
#undef WALK_OPERANDS
#define WALK_OPERANDS 3
#include "common/walk.clh"

__attribute__((always_inline)) void FN(one)(uint i, SRC_OF(T) a, SRC_OF(T) b, DST_OF(R) y, const struct walk_args *s)
{
    int at[3];
    if (i < (uint)s->count) {
        FN(places)(i, at, s);
        y[at[2]] = OP(a[at[0]], b[at[1]]);
    }
}

void FN(body)(ulong group, SRC_OF(T) a, SRC_OF(T) b, DST_OF(R) y, const struct walk_args *s)
{
    const bool whole = s->even[2] && WALK_ALIGNED(y, R4);
    const uint first = WALK_FOUR(group);
    if (whole && first + 3 < (uint)s->count) {
        int at[3];
        FN(places)(first, at, s);
        const T4 u = FN(four)(a, at[0], 0, s), v = FN(four)(b, at[1], 1, s);
        *(global R4 *)(y + at[2]) = (R4)((R)OP(u.x, v.x), (R)OP(u.y, v.y), (R)OP(u.z, v.z), (R)OP(u.w, v.w));
    } else {
        for (int k = 0; k < 4; k++)
            FN(one)(whole ? first + k : WALK_ONE(group, k), a, b, y, s);
    }
}

KERNEL FN(main)(SRC_OF(T) a, ulong a_off, SRC_OF(T) b, ulong b_off, DST_OF(R) y, ulong y_off, const struct walk_args s)
{
    FN(body)(GROUP, a + a_off, b + b_off, y + y_off, ARGS(s));
}
