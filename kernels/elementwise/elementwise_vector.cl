/* elementwise_vector.cl: up to four element-wise functions one after the other on vectors of V floats, for CPU devices.
 *
 *   v = x[i], then v = PART<k>(v), PART<k>(v, o_k[i]) or PART<k>(o_k[i], v) for k = 0, 1 ..; y[i] = v
 *
 * Layouts: rows of vectors as vector_walk.clh tells; operands of the walk are x, o_0 to o_3, y, absent ones NULL.
 * Work-group: WG = 1, which computes a part of `run` vectors of one row, or `row_run` rows in one part. Local memory:
 * none.
 * Defines: V 4, 8 or 16; PART0 (required) to PART3: names from activation_body.clh, unary_body.clh or binary_body.clh;
 * HOW0 to HOW3: 1 for a function of v, 2 of v and o_k, 3 of o_k and v. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "elementwise/elementwise_args.h"
#include "common/activation.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) elementwise_vector_##x
#endif
#include "common/activation_vec.clh"
#define F FV
#define ACT(name) static FV FN(act_##name)(FV x, float p0, float p1)
#define DO(name) FN(act_##name)
#include "elementwise/unary_body.clh"
#undef ACT
#undef DO
#define BIN(name) static FV FN(bin_##name)(FV a, FV b)
#include "elementwise/binary_body.clh"
#undef F
#undef BIN
#include "elementwise/vector_rows.clh"
#undef VECTOR_WALK
#define VECTOR_WALK elementwise_vector_args
#include "elementwise/vector_walk.clh"
#undef PART_ELEMENT
#undef PART_NUMBERS
#undef PART_CALL
#define PART_ELEMENT FV
#define PART_NUMBERS elementwise_vector_args
#define PART_CALL(f) VECTOR_ACT(f)
#include "elementwise/elementwise_parts.clh"
#undef SAME_OF
#undef NEXT_OF
#undef LAST_OF
#define SAME_OF(k) (HOW##k > 1 ? FN(same)(o##k, a->step[1 + k], lanes, a->channel_step[1 + k]) : (FV)0.0f)
#define NEXT_OF(k) (HOW##k > 1 ? OPERAND(o##k, a->step[1 + k], s##k, i) : (FV)0.0f)
#define LAST_OF(k) (HOW##k > 1 ? LAST_OPERAND(o##k, a->step[1 + k], s##k, whole * V, rest) : (FV)0.0f)

void FN(row)(SRC x, SRC o0, SRC o1, SRC o2, SRC o3, DST y, long first, long past, int lanes,
             const struct elementwise_vector_args *given)
{
    const struct elementwise_vector_args copy = *given, *a = &copy; /* stores of y cannot change it */
    const int rest = (int)(a->inner % V), x_step = a->step[0];
    const long whole = min(past, a->inner / V);
    const FV x_same = FN(same)(x, x_step, lanes, a->channel_step[0]);
    const FV s0 = SAME_OF(0), s1 = SAME_OF(1), s2 = SAME_OF(2), s3 = SAME_OF(3);
    for (long i = first; i < whole; i++) {
        const FV v = FN(all)(OPERAND(x, x_step, x_same, i), NEXT_OF(0), NEXT_OF(1), NEXT_OF(2), NEXT_OF(3), a);
        STOREV(lanes < V ? select((FV)0.0f, v, LANES_V < (IV)lanes) : v, y, i * V);
    }
    if (whole < past && lanes == V)
        FN(store_some)(FN(all)(LAST_OPERAND(x, x_step, x_same, whole * V, rest), LAST_OF(0), LAST_OF(1), LAST_OF(2),
                               LAST_OF(3), a),
                       y, whole * V, rest);
}

void FN(body)(ulong group, SRC x, SRC o0, SRC o1, SRC o2, SRC o3, DST y, const struct elementwise_vector_args *a)
{
    const struct vector_part part = vector_part_of(group, &a->rows);
    for (long row = part.row; row < part.past_row; row++)
        FN(row)(x + FN(row_at)(row, 0, a), o0 + FN(row_at)(row, 1, a), o1 + FN(row_at)(row, 2, a),
                o2 + FN(row_at)(row, 3, a), o3 + FN(row_at)(row, 4, a), y + FN(row_at)(row, 5, a), part.first,
                part.past, VECTOR_LANES(row, &a->rows), a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC o0, ulong o0_off, SRC o1, ulong o1_off, SRC o2, ulong o2_off, SRC o3,
                ulong o3_off, DST y, ulong y_off, const struct elementwise_vector_args a)
{
    FN(body)(GROUP, x + x_off, o0 + o0_off, o1 + o1_off, o2 + o2_off, o3 + o3_off, y + y_off, ARGS(a));
}
