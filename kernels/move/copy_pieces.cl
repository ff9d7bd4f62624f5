/* copy_pieces.cl: pieces of rows between one array and up to eight others in one launch, four elements a work-item, for
 * GPUs: concat and split.
 *
 *   JOIN 1: one[one_at[k] + n * one_n[k] + row * one_row[k] + e] = m_k[n * many_n[k] + row * many_row[k] + e]
 *   JOIN 0: the other way round
 *
 * Layouts: any strides between rows, whose elements lie side by side.
 * Index map: work-items first[k] to first[k + 1] - 1 move piece k: item = first[k] + (n * rows[k] + row) * quads[k] +
 * e / 4. A number is taken apart by multiplications, as in walk.clh.
 * Work-group: WG items. Local memory: none.
 * Defines: JOIN 0 or 1; T (types.clh), WG. */
#include "common/clcnn.clh"
#include "common/types.clh"
#include "common/walk_divide.clh"
#include "move/move_args.h"
#ifndef FN
#define FN(x) copy_pieces_##x
#endif
#ifndef JOIN
#define JOIN 1
#endif
#ifndef COPY_PIECES_CL
#define COPY_PIECES_CL
#define PIECES_CAT_(a, b) a##b
#define PIECES_CAT(a, b) PIECES_CAT_(a, b)
#define PIECES_TAKE(i)         \
    if (item >= a->first[i]) { \
        many = m##i;           \
        k = i;                 \
    }
#endif

/* Outside the guard: each instance of a chained unit has its own. */
#undef T4
#undef MANY
#undef ONE
#define T4 PIECES_CAT(T, 4)
#if JOIN
#define MANY SRC_OF(T)
#define ONE DST_OF(T)
#else
#define MANY DST_OF(T)
#define ONE SRC_OF(T)
#endif

__attribute__((always_inline)) void FN(move)(SRC_OF(T) x, DST_OF(T) y)
{
    if ((((ulong)x | (ulong)y) & (sizeof(T4) - 1)) == 0)
        *(global T4 *)y = *(const global T4 *)x;
    else
        for (int i = 0; i < 4; i++)
            y[i] = x[i];
}

void FN(body)(ulong group, MANY m0, MANY m1, MANY m2, MANY m3, MANY m4, MANY m5, MANY m6, MANY m7, ONE one,
              const struct pieces_args *a)
{
    const int item = (int)((uint)group * WG + (uint)LANE);
    if (item < a->past) {
        MANY many = m0;
        int k = 0;
        PIECES_TAKE(1)
        PIECES_TAKE(2)
        PIECES_TAKE(3)
        PIECES_TAKE(4)
        PIECES_TAKE(5)
        PIECES_TAKE(6)
        PIECES_TAKE(7)
        const uint vector = (uint)(item - a->first[k]), line = WALK_DIVIDE(vector, a, k);
        const uint n = WALK_DIVIDE(line, a, COPY_PIECES + k), row = line - n * (uint)a->rows[k];
        const int e = (int)(vector - line * (uint)a->quads[k]) * 4;
        many += n * a->many_n[k] + (long)row * a->many_row[k] + e;
        const long at = a->one_at[k] + n * a->one_n[k] + (long)row * a->one_row[k] + e;
#if JOIN
        FN(move)(many, one + at);
#else
        FN(move)(one + at, many);
#endif
    }
}

KERNEL FN(main)(MANY m0, ulong m0_off, MANY m1, ulong m1_off, MANY m2, ulong m2_off, MANY m3, ulong m3_off, MANY m4,
                ulong m4_off, MANY m5, ulong m5_off, MANY m6, ulong m6_off, MANY m7, ulong m7_off, ONE one,
                ulong one_off, const struct pieces_args a)
{
    FN(body)(GROUP, m0 + m0_off, m1 + m1_off, m2 + m2_off, m3 + m3_off, m4 + m4_off, m5 + m5_off, m6 + m6_off,
             m7 + m7_off, one + one_off, ARGS(a));
}
