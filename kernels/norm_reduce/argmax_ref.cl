/* argmax_ref.cl: index of the largest or smallest element of each line, NaN before all others.
 *
 *   y = i with BETTER(x[i], x[j]) for all j, the first such i, or the last one with LAST
 *
 * On CPU devices columns that are neighbours are looked at together, a tile of them for each element of their lines.
 * Layouts: any strides; struct line_args with the operands x, y.
 * Work-group: WG work-items over rows and pieces of lines as in rows.clh. Local memory: none.
 * Defines: T (types.clh), LEAST (1: the smallest; default 0), LAST (0 or 1; default 0), STEP0, STEP1 (strided.clh: x,
 * y), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) argmax_ref_##x
#endif
#ifndef LEAST
#define LEAST 0
#endif
#ifndef LAST
#define LAST 0
#endif
#define BETTER(a, b) ((LEAST ? (a) < (b) : (a) > (b)) || ((a) != (a) && (b) == (b)))
#define TAKES(v, best) (LAST ? !BETTER(best, v) : BETTER(v, best))
#if defined(RUNS) && RUNS && STEP0 == 1
#define TILE 32

void FN(tile)(SRC_OF(T) x, DST_OF(long) y, long y_step, const struct line_args *a)
{
    T best[TILE];
    int index[TILE];
    for (int t = 0; t < TILE; t++) {
        best[t] = x[t];
        index[t] = 0;
    }
    for (int l = 1; l < a->length; l++) {
        SRC_OF(T) xl = x + l * a->step[0];
        for (int t = 0; t < TILE; t++) {
            const T v = xl[t];
            const bool takes = TAKES(v, best[t]);
            best[t] = takes ? v : best[t];
            index[t] = takes ? l : index[t];
        }
    }
    for (int t = 0; t < TILE; t++)
        y[t * y_step] = index[t];
}
#else
#define TILE 0
#endif

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(long) y, const struct line_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long begin = FIRST_COLUMN(group, s->pieces);
        const int inner = s->size[s->rank - 1];
        long first = begin;
        ROW_STARTS(s, row, x0, y0)
        const long x_step = STEP_OF(s, 0), y_step = STEP_OF(s, 1);
#if TILE
        const long past = min(begin + ELEMS, (long)inner);
        for (; first + TILE <= past; first += TILE)
            FN(tile)(x + x0 + first, y + y0 + first * y_step, y_step, a);
        for (long i = first; i < past; i++) {
#else
        FOR_COLUMNS(i, first, inner)
        {
#endif
            SRC_OF(T) line = x + x0 + i * x_step;
            T best = line[0];
            long index = 0;
            for (int l = 1; l < a->length; l++) {
                const T v = line[l * a->step[0]];
                if (TAKES(v, best)) {
                    best = v;
                    index = l;
                }
            }
            y[y0 + i * y_step] = index;
        }
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(long) y, ulong y_off, const struct line_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
