/* rotary_embedding_vector.cl: rotary position embedding of whole vectors, for CPU devices.
 *
 *   y[i][j] = x[i][j] * cos[i][j] + t * sin[i][j], as rotary_embedding_ref.cl tells
 *
 * Layouts: row-major with batch strides; cos and sin have table_rows rows, used again and again. A row, without
 * INTERLEAVED each half of it, is whole vectors.
 * Work-group: WG = 1, row_run rows. Local memory: none.
 * Defines: V floats of a vector; INTERLEAVED 0 or 1. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "attention/attention_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) rotary_embedding_vector_##x
#endif
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif

void FN(body)(ulong group, SRC x, SRC cos, SRC sin, DST y, const struct rotary_vector_args *a)
{
    const long from = (long)group * a->row_run, past = min(from + a->row_run, a->rows);
    for (long row = from; row < past; row++) {
        const long item = row / a->item_rows, in_item = (row - item * a->item_rows) * a->columns;
        const long in_table = row % a->table_rows, table = in_table / a->table_item_rows;
        const long table_row = (in_table - table * a->table_item_rows) * a->columns;
        SRC xr = x + item * a->x_n + in_item;
        SRC cr = cos + table * a->cos_n + table_row;
        SRC sr = sin + table * a->sin_n + table_row;
        DST yr = y + item * a->y_n + in_item;
#if INTERLEAVED
        for (long j = 0; j < a->columns; j += V) {
            const FV v = LOADV(xr, j), other = SWAP_PAIRS_V(v);
            STOREV(v * LOADV(cr, j) + select(other, -other, (LANES_V & 1) == 0) * LOADV(sr, j), yr, j);
        }
#else
        const long middle = a->columns / 2;
        for (long j = 0; j < middle; j += V) {
            const FV first = LOADV(xr, j), second = LOADV(xr, middle + j);
            STOREV(first * LOADV(cr, j) - second * LOADV(sr, j), yr, j);
            STOREV(second * LOADV(cr, middle + j) + first * LOADV(sr, middle + j), yr, middle + j);
        }
#endif
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC cos, ulong cos_off, SRC sin, ulong sin_off, DST y, ulong y_off,
                const struct rotary_vector_args a)
{
    FN(body)(GROUP, x + x_off, cos + cos_off, sin + sin_off, y + y_off, &a);
}
