/* binary_vector.cl: y = OP(a, b) element by element with NumPy broadcasting on vectors of V floats, for CPU devices.
 *
 * Layouts: rows of vectors as strided_args tells (its last dimension is the vectors of a row). The
 * i-th vector of a row of an operand is, by its `step`
 *   VECTOR_STEP  V elements at i * V
 *   SAME_VECTOR  V elements from 0 on, `channel_step` apart: a value a channel, for maps on channel blocks
 *   SAME_VALUE   element 0, V times
 *   EACH_VALUE   element i, V times: a value a pixel, for maps on channel blocks
 * On channel blocks every `blocks`-th row holds `lanes` channels alone: y's other lanes become zeros, and those of a
 * SAME_VECTOR are not read.
 * Work-group: WG = 1, which computes a part of `run` vectors of one row, or `row_run` rows in one part. Local memory:
 * none.
 * Defines: V 4, 8 or 16; OP (required: a name from binary_body.clh). */
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
#define F FV
#define BIN(name) static FV FN(bin_##name)(FV a, FV b)
#include "elementwise/binary_body.clh"
#undef F
#undef BIN

/* What every vector of a row is, where it is the same. */
FV FN(same)(SRC p, int step, int lanes, long channel_step)
{
    if (step == SAME_VALUE)
        return (FV)(p[0]);
    if (step != SAME_VECTOR)
        return (FV)0.0f;
    return lanes < V || channel_step != 1 ? FN(load_some)(p, lanes, channel_step) : LOADV(p, 0);
}

#define OPERAND(p, step, same, i) \
    ((step) == VECTOR_STEP ? LOADV(p, (i) * V) : (step) == EACH_VALUE ? (FV)((p)[i]) : (same))

void FN(row)(SRC a, SRC b, DST y, long first, long past, int lanes, const struct binary_vector_args *s)
{
    const int a_step = s->step[0], b_step = s->step[1], rest = (int)(s->inner % V);
    const long whole = min(past, s->inner / V);
    const FV a_same = FN(same)(a, a_step, lanes, s->channel_step[0]);
    const FV b_same = FN(same)(b, b_step, lanes, s->channel_step[1]);
    if (lanes < V) {
        for (long i = first; i < whole; i++)
            STOREV(select((FV)0.0f, VECTOR_ACT(OP)(OPERAND(a, a_step, a_same, i), OPERAND(b, b_step, b_same, i)),
                          LANES_V < (IV)lanes),
                   y, i * V);
        return;
    }
    for (long i = first; i < whole; i++)
        STOREV(VECTOR_ACT(OP)(OPERAND(a, a_step, a_same, i), OPERAND(b, b_step, b_same, i)), y, i * V);
    if (whole < past) { /* never with a value a pixel */
        const long at = whole * V;
        const FV av = a_step == VECTOR_STEP ? FN(load_some)(a + at, rest, 1) : a_same;
        const FV bv = b_step == VECTOR_STEP ? FN(load_some)(b + at, rest, 1) : b_same;
        FN(store_some)(VECTOR_ACT(OP)(av, bv), y, at, rest);
    }
}

void FN(body)(ulong group, SRC a, SRC b, DST y, const struct binary_vector_args *s)
{
    const struct vector_part part = vector_part_of(group, &s->rows);
    for (long row = part.row; row < part.past_row; row++) {
        long a0 = 0, b0 = 0, y0 = 0, left = row;
        for (int d = s->rank - 1; d >= 0; d--) {
            const long upper = left / s->size[d], digit = left - upper * s->size[d];
            a0 += digit * s->stride[0].of[d];
            b0 += digit * s->stride[1].of[d];
            y0 += digit * s->stride[2].of[d];
            left = upper;
        }
        FN(row)(a + a0, b + b0, y + y0, part.first, part.past, VECTOR_LANES(row, &s->rows), s);
    }
}

KERNEL FN(main)(SRC a, ulong a_off, SRC b, ulong b_off, DST y, ulong y_off, const struct binary_vector_args s)
{
    FN(body)(GROUP, a + a_off, b + b_off, y + y_off, ARGS(s));
}
