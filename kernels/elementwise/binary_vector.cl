/* binary_vector.cl: y = OP(a, b) element by element with NumPy broadcasting on vectors of V floats, for CPU devices.
 *
 * Layouts: rows of vectors as vector_walk.clh tells.
 * Work-group: WG = 1, which computes a part of `run` vectors of one row, or `row_run` rows in one part. Local memory:
 * none.
 * Defines: V 4, 8 or 16; OP (required: a name from binary_body.clh); POWER 0, or 1: OP is bin_pow, and b one value, of
 * which common ones have ways of their own. */
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
#define FN(x) binary_vector_##x
#endif
#ifndef OP
#error "OP is required: a function of binary_body.clh"
#endif
#include "common/activation_vec.clh"
#include "elementwise/vector_rows.clh"
#undef VECTOR_WALK
#define VECTOR_WALK binary_vector_args
#include "elementwise/vector_walk.clh"
#define F FV
#define BIN(name) static FV FN(bin_##name)(FV a, FV b)
#include "elementwise/binary_body.clh"
#undef F
#undef BIN

#ifndef POWER
#define POWER 0
#endif

#if POWER
/* Powers by b where it is known, with zeros, infinities and NaN as pow has them. */
#define POWER_OF(name) static FV FN(power_##name)(FV a, FV b)
POWER_OF(2)
{
    return a * a;
}
POWER_OF(3)
{
    return a * a * a;
}
POWER_OF(4)
{
    const FV square = a * a;
    return square * square;
}
POWER_OF(inverse)
{
    return 1.0f / a;
}
POWER_OF(inverse_2)
{
    const FV inverse = 1.0f / a;
    return inverse * inverse;
}
POWER_OF(root)
{
    return a == (FV)-INFINITY ? (FV)INFINITY : sqrt(a) + 0.0f; /* of -0 it is 0 */
}
POWER_OF(inverse_root)
{
    return 1.0f / FN(power_root)(a, b);
}
#ifdef OWN_MATH
/* b is finite and not whole: there are no signs to keep. */
POWER_OF(part)
{
    const FV size = fabs(a), end = ((a == (FV)0.0f) ^ (b < (FV)0.0f)) ? (FV)0.0f : (FV)INFINITY;
    const FV y = ((a == (FV)0.0f) | (size == (FV)INFINITY)) ? end : MATH(pow_size)(size, b);
    return ((a >= (FV)0.0f) | (a == (FV)-INFINITY)) ? y : (FV)NAN;
}
#endif
#endif

/* The vectors of a row by f(a, b). */
#define ROW(f)                                                                                       \
    if (lanes < V) {                                                                                 \
        for (long i = first; i < whole; i++)                                                         \
            STOREV(select((FV)0.0f, f(OPERAND(a, a_step, a_same, i), OPERAND(b, b_step, b_same, i)), \
                          LANES_V < (IV)lanes),                                                      \
                   y, i *V);                                                                         \
        return;                                                                                      \
    }                                                                                                \
    for (long i = first; i < whole; i++)                                                             \
        STOREV(f(OPERAND(a, a_step, a_same, i), OPERAND(b, b_step, b_same, i)), y, i *V);            \
    if (whole < past) { /* never with a value a pixel */                                             \
        const long at = whole * V;                                                                   \
        const FV av = LAST_OPERAND(a, a_step, a_same, at, rest);                                     \
        const FV bv = LAST_OPERAND(b, b_step, b_same, at, rest);                                     \
        FN(store_some)(f(av, bv), y, at, rest);                                                      \
    }

void FN(row)(SRC a, SRC b, DST y, long first, long past, int lanes, const struct binary_vector_args *s)
{
    const int a_step = s->step[0], rest = (int)(s->inner % V);
    const long whole = min(past, s->inner / V);
    const FV a_same = FN(same)(a, a_step, lanes, s->channel_step[0]);
#if POWER
    const int b_step = SAME_VALUE;
    const float power = b[0];
    const FV b_same = power;
#define POWER_IS(value, name)         \
    if (power == value) {             \
        ROW(FN(power_##name)) return; \
    }
    POWER_IS(2.0f, 2)
    POWER_IS(0.5f, root)
    POWER_IS(3.0f, 3)
    POWER_IS(-0.5f, inverse_root)
    POWER_IS(-1.0f, inverse)
    POWER_IS(-2.0f, inverse_2)
    POWER_IS(4.0f, 4)
#ifdef OWN_MATH
    if (fabs(power) < 8388608.0f && rint(power) != power) {
        ROW(FN(power_part)) return;
    }
#endif
#else
    const int b_step = s->step[1];
    const FV b_same = FN(same)(b, b_step, lanes, s->channel_step[1]);
#endif
    ROW(VECTOR_ACT(OP))
}

void FN(body)(ulong group, SRC a, SRC b, DST y, const struct binary_vector_args *s)
{
    const struct vector_part part = vector_part_of(group, &s->rows);
    for (long row = part.row; row < part.past_row; row++)
        FN(row)(a + FN(row_at)(row, 0, s), b + FN(row_at)(row, 1, s), y + FN(row_at)(row, 2, s), part.first, part.past,
                VECTOR_LANES(row, &s->rows), s);
}

KERNEL FN(main)(SRC a, ulong a_off, SRC b, ulong b_off, DST y, ulong y_off, const struct binary_vector_args s)
{
    FN(body)(GROUP, a + a_off, b + b_off, y + y_off, ARGS(s));
}
