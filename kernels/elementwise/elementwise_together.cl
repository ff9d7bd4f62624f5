/* elementwise_together.cl: up to four element-wise functions one after the other, four elements a work-item, for GPUs.
 *
 *   v = x[i], then v = PART<k>(v), PART<k>(v, o_k[i]) or PART<k>(o_k[i], v) for k = 0, 1 ..; y[i] = v
 *
 * Layouts: any strides, 0 along repeated dimensions; operands of the walk are x, o_0 to o_3, y, absent ones NULL.
 * Work-group: 4 * WG elements as in walk.clh. Local memory: none.
 * Defines: PART0 (required) to PART3: names from activation.clh, unary.clh or binary.clh; HOW0 to HOW3: 1 for a
 * function of v, 2 of v and o_k, 3 of o_k and v; RANK (walk.clh), WG. */
#include "common/clcnn.clh"
#include "elementwise/elementwise_args.h"
#include "common/activation.clh"
#include "elementwise/unary.clh"
#include "elementwise/binary.clh"
#include "common/types.clh"
#ifndef FN
#define FN(x) elementwise_together_##x
#endif
#undef WALK_OPERANDS
#define WALK_OPERANDS 6
#include "common/walk.clh"
#undef PART_ELEMENT
#undef PART_NUMBERS
#undef PART_CALL
#define PART_ELEMENT float
#define PART_NUMBERS elementwise_together_args
#define PART_CALL(f) f
#include "elementwise/elementwise_parts.clh"
#undef ONE_OF
#undef FOUR_OF
#define ONE_OF(k) (HOW##k > 1 ? o##k[at[1 + k]] : 0.0f)
#define FOUR_OF(k) (HOW##k > 1 ? FN(four)(o##k, at[1 + k], 1 + k, &a->walk) : (float4)0.0f)

void FN(body)(ulong group, SRC x, SRC o0, SRC o1, SRC o2, SRC o3, DST y, const struct elementwise_together_args *a)
{
    const bool whole = a->walk.even[5] && WALK_ALIGNED(y, float4);
    const uint first = WALK_FOUR(group), count = (uint)a->walk.count;
    int at[6];
    if (whole && first + 3 < count) {
        FN(places)(first, at, &a->walk);
        const float4 v = FN(four)(x, at[0], 0, &a->walk), e0 = FOUR_OF(0), e1 = FOUR_OF(1), e2 = FOUR_OF(2),
                     e3 = FOUR_OF(3);
        *(global float4 *)(y + at[5]) =
            (float4)(FN(all)(v.x, e0.x, e1.x, e2.x, e3.x, a), FN(all)(v.y, e0.y, e1.y, e2.y, e3.y, a),
                     FN(all)(v.z, e0.z, e1.z, e2.z, e3.z, a), FN(all)(v.w, e0.w, e1.w, e2.w, e3.w, a));
    } else {
        for (int k = 0; k < 4; k++) {
            const uint i = whole ? first + k : WALK_ONE(group, k);
            if (i < count) {
                FN(places)(i, at, &a->walk);
                y[at[5]] = FN(all)(x[at[0]], ONE_OF(0), ONE_OF(1), ONE_OF(2), ONE_OF(3), a);
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC o0, ulong o0_off, SRC o1, ulong o1_off, SRC o2, ulong o2_off, SRC o3,
                ulong o3_off, DST y, ulong y_off, const struct elementwise_together_args a)
{
    FN(body)(GROUP, x + x_off, o0 + o0_off, o1 + o1_off, o2 + o2_off, o3 + o3_off, y + y_off, ARGS(a));
}
