/* rotary_embedding_ref.cl: rotary position embedding, element by element.
 *
 *   y[i][j] = x[i][j] * cos[i][j] + t * sin[i][j],  t = -x[i][j + d] for the first column of a pair, x[i][j - d] for
 *   the second; d = 1 when interleaved, else half of the columns
 *
 * Layouts: any strides, 0 along repeated dimensions, merged by the host; the last dimension is whole rows.
 * Work-group: WG work-items over rows and pieces as in rows.clh. Local memory: none.
 * Defines: INTERLEAVED 0 or 1; STEP0 to STEP3 (strided.clh: x, cos, sin, y), WG, LANES, ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "common/clcnn.clh"
#include "attention/attention_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#ifndef FN
#define FN(x) rotary_embedding_ref_##x
#endif
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif

void FN(body)(ulong group, SRC x, SRC cos, SRC sin, DST y, const struct rotary_args *a)
{
    const struct strided_args *s = &a->walk;
    const INDEX row = ROW_OF(group, s->pieces);
    if (row < (INDEX)s->rows) {
        const long first = FIRST_COLUMN(group, s->pieces);
        ROW_STARTS_4(s, row, x0, cos0, sin0, y0)
        const long x_step = STEP_OF(s, 0), cos_step = STEP_OF(s, 1), sin_step = STEP_OF(s, 2), y_step = STEP_OF(s, 3);
        const long apart = INTERLEAVED ? 1 : a->columns / 2;
        FOR_COLUMNS(i, first, s->size[s->rank - 1])
        {
            const bool second = INTERLEAVED ? i % 2 == 1 : i % a->columns >= apart;
            const float other = x[x0 + (second ? i - apart : i + apart) * x_step];
            y[y0 + i * y_step] =
                x[x0 + i * x_step] * cos[cos0 + i * cos_step] + (second ? other : -other) * sin[sin0 + i * sin_step];
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC cos, ulong cos_off, SRC sin, ulong sin_off, DST y, ulong y_off,
                const struct rotary_args a)
{
    FN(body)(GROUP, x + x_off, cos + cos_off, sin + sin_off, y + y_off, ARGS(a));
}
