/* pad_quads.cl: padding of any dimension, four elements a work-item, for GPUs. What is cropped is no longer part of x
 * here.
 *
 *   y[i] = x[i - begin] where that lies inside of x, else value, or x[SOURCE(i - begin)]
 *
 * Layouts: dimensions with any strides, merged by the host where nothing is padded; struct pad_walk_args, whose
 * operands 0 and 1 are x and y.
 * Work-group: 4 * WG elements as in walk.clh. Local memory: none.
 * Defines: T (types.clh), SOURCE (reflect, edge or wrap: where a padded element comes from; none for value), RANK
 * (walk.clh), WG. */
#include "common/clcnn.clh"
#include "move/pad_walk_args.h"
#include "common/types.clh"
#ifndef FN
#define FN(x) pad_quads_##x
#endif
#undef WALK_OPERANDS
#define WALK_OPERANDS 2
#include "common/walk.clh"

#undef PAD_FROM
#ifdef SOURCE
int FN(edge)(int i, int size)
{
    return clamp(i, 0, size - 1);
}

/* Turns instead of a remainder: hardly ever more than one is taken. */
int FN(wrap)(int i, int size)
{
    while (i < 0)
        i += size;
    while (i >= size)
        i -= size;
    return i;
}

/* Mirrored at the first and the last element, which are not repeated, as often as it takes. */
int FN(reflect)(int i, int size)
{
    while (size > 1 && (i < 0 || i >= size))
        i = i < 0 ? -i : 2 * (size - 1) - i;
    return size > 1 ? i : 0;
}
#define SOURCE_NAME(name) FN(name)
#define PAD_FROM(i, size) SOURCE_NAME(SOURCE)(i, size)
#else
#define PAD_FROM(i, size) (i)
#endif

/* Where y has element `number`, and where x has its row; false for a row outside of x. `column`: its place in the row,
 * from x's first on. */
__attribute__((always_inline)) bool FN(row)(uint number, int *x_row, int *y_at, int *column,
                                            const struct pad_walk_args *a)
{
    uint rest = number;
    bool inside = true;
    *x_row = *y_at = *column = 0;
    for (int d = RANK - 1; d >= 0; d--) {
        const uint upper = d > 0 ? WALK_DIVIDE(rest, &a->walk, d) : 0;
        const int digit = (int)(rest - upper * (uint)a->walk.size[d]);
        const int size = a->x_size[d];
        *y_at += digit * a->walk.stride[1].of[d];
        if (d == RANK - 1) {
            *column = digit - a->begin[d];
        } else {
            const int from = PAD_FROM(digit - a->begin[d], size);
            inside = inside && from >= 0 && from < size;
            *x_row += from * a->walk.stride[0].of[d];
        }
        rest = upper;
    }
    return inside;
}

__attribute__((always_inline)) T FN(element)(SRC_OF(T) x, int row, bool inside, int column,
                                             const struct pad_walk_args *a)
{
    const int size = a->x_size[RANK - 1], from = PAD_FROM(column, size);
    inside = inside && from >= 0 && from < size;
    return inside ? x[row + from * a->walk.stride[0].of[RANK - 1]] : (T)a->value;
}

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) y, const struct pad_walk_args *a)
{
    const bool whole = a->walk.even[1] && WALK_ALIGNED(y, T4);
    const uint first = WALK_FOUR(group), count = (uint)a->walk.count;
    int row, at, column;
    if (whole && first + 3 < count) {
        const bool inside = FN(row)(first, &row, &at, &column, a);
        *(global T4 *)(y + at) =
            (T4)(FN(element)(x, row, inside, column, a), FN(element)(x, row, inside, column + 1, a),
                 FN(element)(x, row, inside, column + 2, a), FN(element)(x, row, inside, column + 3, a));
    } else {
        for (int k = 0; k < 4; k++) {
            const uint i = whole ? first + k : WALK_ONE(group, k);
            if (i < count) {
                const bool inside = FN(row)(i, &row, &at, &column, a);
                y[at] = FN(element)(x, row, inside, column, a);
            }
        }
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) y, ulong y_off, const struct pad_walk_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
