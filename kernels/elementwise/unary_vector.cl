/* unary_vector.cl: y = OP(x, p0, p1) element by element on vectors of V floats, for CPU devices.
 *
 * Layouts: x and y are items x_n and y_n elements apart, of `blocks` rows of `inner` elements each. On channel blocks
 * the last row of an item may hold `lanes` channels alone: its other lanes become zeros.
 * Work-group: WG = 1, which computes a part of `run` vectors of one row, or `row_run` rows in one part. Local memory:
 * none.
 * Defines: V 4, 8 or 16; OP (required: a name from activation_body.clh or unary_body.clh). */
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
#define FN(x) unary_vector_##x
#endif
#ifndef OP
#error "OP is required: a function of activation_body.clh or unary_body.clh"
#endif
#include "common/activation_vec.clh"
#define F FV
#define ACT(name) static FV FN(act_##name)(FV x, float p0, float p1)
#define DO(name) FN(act_##name)
#include "elementwise/unary_body.clh"
#undef F
#undef ACT
#undef DO
#include "elementwise/vector_rows.clh"

void FN(row)(SRC x, DST y, long first, long past, int lanes, const struct unary_vector_args *a)
{
    const float p0 = a->p0, p1 = a->p1; /* copies: stores of y cannot change them */
    const int rest = (int)(a->inner % V);
    const long whole = min(past, a->inner / V);
    if (lanes < V) {
        for (long i = first; i < whole; i++)
            STOREV(select((FV)0.0f, VECTOR_ACT(OP)(LOADV(x, i * V), p0, p1), LANES_V < (IV)lanes), y, i * V);
        return;
    }
    for (long i = first; i < whole; i++)
        STOREV(VECTOR_ACT(OP)(LOADV(x, i * V), p0, p1), y, i * V);
    if (whole < past)
        FN(store_some)(VECTOR_ACT(OP)(FN(load_some)(x + whole * V, rest, 1), p0, p1), y, whole * V, rest);
}

void FN(body)(ulong group, SRC x, DST y, const struct unary_vector_args *a)
{
    const struct vector_part part = vector_part_of(group, &a->rows);
    for (long row = part.row; row < part.past_row; row++) {
        const long n = row / a->rows.blocks, at = (row - n * a->rows.blocks) * a->inner;
        FN(row)(x + n * a->x_n + at, y + n * a->y_n + at, part.first, part.past, VECTOR_LANES(row, &a->rows), a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct unary_vector_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
