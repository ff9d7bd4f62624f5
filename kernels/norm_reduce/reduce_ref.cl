/* reduce_ref.cl: sum, mean, maximum or minimum over any dimensions.
 *
 * rows:     the innermost dimension is reduced; LANES work-items an output
 * columns:  it is kept; a work-item has some columns of it and walks over the reduced dimensions
 * Long reductions to few outputs take two launches: parts of the last reduced dimension first, then the
 * parts' results.
 * Layouts: any strides; struct reduce_args, with the kept dimensions first. NaN wins maximum and minimum.
 * Work-group: rows: WG / LANES outputs; columns: rows and pieces as in rows.clh. Local memory: WG floats.
 * Defines: RED (required: red_sum, red_max, red_min), WG, LANES (reduce.clh, rows.clh), ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/rows.clh"
#include "common/strided.clh"
#include "common/reduce.clh"
#ifndef FN
#define FN(x) reduce_ref_##x
#endif
#ifndef RED
#error "RED is required: red_sum, red_max or red_min"
#endif
#define SCRATCH ((WG + 3) / 4)

RED_FOLD(FN(fold), RED)
RED_PART(FN(part), RED, FN(fold))
RED_SHARE(FN(share), RED)

/* Where position `rest` of the reduced dimensions but the last begins. */
long FN(reduced_offset)(long position, const struct reduce_args *a)
{
    INDEX rest = (INDEX)position;
    long offset = 0;
    for (int d = a->rank - 2; d >= a->kept; d--) {
        TAKE_DIGIT(digit, rest, a->size[d]);
        offset += digit * a->x[d];
    }
    return offset;
}

/* Where output `row`, numbered over the first `dims` dimensions, begins in x (.x) and in y (.y). */
long2 FN(kept_offset)(INDEX row, int dims, const struct reduce_args *a)
{
    INDEX rest = row;
    long2 offset = (long2)(0, 0);
    for (int d = dims - 1; d >= 0; d--) {
        TAKE_DIGIT(digit, rest, a->size[d]);
        offset += (long2)(digit * a->x[d], digit * a->y[d]);
    }
    return offset;
}

void FN(rows_body)(ulong group, SRC x, DST y, const struct reduce_args *a, local float4 *scratch)
{
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const INDEX out = (INDEX)row / (INDEX)a->parts;
    const long part = row - out * (INDEX)a->parts;
    const int last = a->rank - 1;
    const long2 at = FN(kept_offset)(out, a->kept, a);
    const long begin = part * a->chunk, length = min(a->chunk, a->size[last] - begin);
    SRC xr = x + at.x + begin * a->x[last];
    float all = RED_INIT(RED);
    for (long block = 0; row < a->rows && block < a->outer; block += RED_BLOCK) {
        float some = RED_INIT(RED);
        for (long o = block; o < min(a->outer, block + RED_BLOCK); o++) {
            const float v = FN(part)(xr + FN(reduced_offset)(o, a), length, a->x[last], LANE % LANES);
            some = RED(some, v);
        }
        all = RED(all, some);
    }
    all = FN(share)(all, (local float *)scratch);
    const bool writes = LANE % LANES == 0;
    if (row < a->rows && writes)
        y[at.y + part] = all / a->divisor;
}

void FN(columns_body)(ulong group, SRC x, DST y, const struct reduce_args *a)
{
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const int column = a->kept - 1, last = a->rank - 1;
        const long first = FIRST_COLUMN(group, a->pieces), inner = a->size[column];
        const INDEX out = row / (INDEX)a->parts;
        const long part = row - out * (INDEX)a->parts;
        const long2 at = FN(kept_offset)(out, column, a);
        const long begin = part * a->chunk, end = min(begin + a->chunk, (long)a->size[last]);
        float all[ELEMS], some[ELEMS];
        for (int e = 0; e < ELEMS; e++)
            all[e] = RED_INIT(RED);
        for (long o = 0; o < a->outer; o++) {
            SRC xo = x + at.x + FN(reduced_offset)(o, a);
            for (long block = begin; block < end; block += RED_BLOCK) {
                for (int e = 0; e < ELEMS; e++)
                    some[e] = RED_INIT(RED);
                for (long l = block; l < min(end, block + RED_BLOCK); l++) {
                    SRC xl = xo + l * a->x[last];
                    FOR_COLUMNS(i, first, inner)
                    some[SLOT_OF(i, first)] = RED(some[SLOT_OF(i, first)], xl[i]);
                }
                for (int e = 0; e < ELEMS; e++)
                    all[e] = RED(all[e], some[e]);
            }
        }
        DST yr = y + at.y + part;
        FOR_COLUMNS(i, first, inner)
        yr[i * a->y[column]] = all[SLOT_OF(i, first)] / a->divisor;
    }
}

KERNEL FN(rows)(SRC x, ulong x_off, DST y, ulong y_off, const struct reduce_args a)
{
    local float4 scratch[SCRATCH];
    FN(rows_body)(GROUP, x + x_off, y + y_off, ARGS(a), scratch);
}

KERNEL FN(columns)(SRC x, ulong x_off, DST y, ulong y_off, const struct reduce_args a)
{
    FN(columns_body)(GROUP, x + x_off, y + y_off, ARGS(a));
}
