/* topk_ref.cl: the best elements of each line in order, with their indices.
 *
 * Up to TOPK_FEW results are kept in order in one pass; of more, number j is the best of what comes after number j - 1
 * in the order (value, index). NaN is above all numbers.
 * Layouts: any strides; struct line_args with the operands x, values, indices.
 * Work-group: WG work-items over rows and pieces of lines as in rows.clh. Local memory: none.
 * Defines: T (types.clh), LEAST (topk_lines.clh), STEP0, STEP1, STEP2 (strided.clh: x, values,
 * indices), WG, LANES, ELEMS, RUNS, INDEX (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) topk_ref_##x
#endif
#include "norm_reduce/topk_lines.clh"

void FN(few)(SRC_OF(T) line, DST_OF(T) values, long v_step, DST_OF(long) indices, long i_step, long step, int length,
             int count)
{
    T best[TOPK_FEW];
    int at[TOPK_FEW];
    int n = 0;
    for (int l = 0; l < length; l++) {
        const T v = line[l * step];
        if (n < count || BETTER(v, best[count - 1])) {
            int j = n < count ? n++ : count - 1;
            for (; j > 0 && BETTER(v, best[j - 1]); j--) {
                best[j] = best[j - 1];
                at[j] = at[j - 1];
            }
            best[j] = v;
            at[j] = l;
        }
    }
    for (int j = 0; j < count; j++) {
        values[j * v_step] = best[j];
        indices[j * i_step] = at[j];
    }
}

void FN(body)(ulong group, SRC_OF(T) x, DST_OF(T) values, DST_OF(long) indices, const struct line_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        INDEX rest = row;
        long x0 = 0, v0 = 0, i0 = 0;
        for (int d = s->rank - 2; d >= 0; d--) {
            TAKE_DIGIT(digit, rest, s->size[d]);
            x0 += digit * s->stride[0].of[d];
            v0 += digit * s->stride[1].of[d];
            i0 += digit * s->stride[2].of[d];
        }
        const long x_step = STEP_OF(s, 0), v_step = STEP_OF(s, 1), i_step = STEP_OF(s, 2);
        FOR_COLUMNS(i, first, s->size[s->rank - 1])
        {
            SRC_OF(T) line = x + x0 + i * x_step;
            if (a->count <= TOPK_FEW)
                FN(few)(line, values + v0 + i * v_step, a->step[1], indices + i0 + i * i_step, a->step[2], a->step[0],
                        a->length, a->count);
            T last = 0;
            int last_at = -1;
            for (int j = 0; a->count > TOPK_FEW && j < a->count; j++) {
                T best = 0;
                int at = -1;
                for (int l = 0; l < a->length; l++) {
                    const T v = line[l * a->step[0]];
                    const bool after = j == 0 || BETTER(last, v) || (!BETTER(v, last) && l > last_at);
                    if (after && (at < 0 || BETTER(v, best))) {
                        best = v;
                        at = l;
                    }
                }
                values[v0 + i * v_step + j * a->step[1]] = last = best;
                indices[i0 + i * i_step + j * a->step[2]] = last_at = at;
            }
        }
    }
}

KERNEL FN(main)(SRC_OF(T) x, ulong x_off, DST_OF(T) values, ulong values_off, DST_OF(long) indices, ulong indices_off,
                const struct line_args a)
{
    FN(body)(GROUP, x + x_off, values + values_off, indices + indices_off, ARGS(a));
}
