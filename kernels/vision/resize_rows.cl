/* resize_rows.cl: resampling of 1 to 3 spatial dimensions by kernels of some width, for CPU devices.
 *
 * As resize_taps.cl, but the rows of x that an output row reads are blended to one first, by vectors, and then the
 * columns of that; what is worked out for the columns serves several rows.
 * Layouts: N,C,(D,)(H,)W with batch strides.
 * Index map: group = part * pieces + piece; a work-item computes COLUMNS columns of the output rows, numbered
 * (n, c, d, h), from part * run on.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V floats of a vector; DIMS (spatial dimensions, 1 to 3; default 3); KIND, SPAN, COORD (resize_taps.clh; SPAN
 * at most 32). */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "vision/vision_args.h"
#include "common/vec.clh"
#ifndef FN
#define FN(x) resize_rows_##x
#endif
#ifndef DIMS
#define DIMS 3
#endif
#include "vision/resize_taps.clh"

#define COLUMNS RESIZE_ROWS_COLUMNS(SPAN)
#define KEPT RESIZE_ROWS_KEPT

/* Taps of neighbouring output columns: element kept[at[m][i]] counts weight[m][i] for column i, which they reach from
 * column `first` of x on. */
struct FN(columns) {
    int first, count;
    int at[SPAN][COLUMNS];
    float weight[SPAN][COLUMNS];
};

/* kept[0] stays 0, for taps with weight 0: of an infinite value they count for nothing. */
void FN(columns_of)(struct FN(columns) *c, int column, int width, const struct resize_taps_args *a)
{
    int past = 0;
    for (int i = 0; i < width; i++) {
        const struct FN(taps) t = FN(taps_of)(column + i, 2, a);
        if (i == 0)
            c->first = t.index[0];
        past = t.index[SPAN - 1] + 1;
        for (int m = 0; m < SPAN; m++) {
            c->weight[m][i] = t.weight[m] / t.total;
            c->at[m][i] = t.weight[m] != 0.0f ? 1 + t.index[m] - c->first : 0;
        }
    }
    c->count = past - c->first;
}

/* kept[1..] = row * weight, or that added. */
void FN(add_row)(SRC row, float weight, bool anew, float *kept, int count)
{
    int k = 0;
    for (; k + V <= count; k += V) {
        const FV v = LOADV(row, k) * weight;
        KEEPV(anew ? v : LOADV(kept, 1 + k) + v, kept, 1 + k);
    }
    for (; k < count; k++)
        kept[1 + k] = anew ? row[k] * weight : kept[1 + k] + row[k] * weight;
}

/* The rows of output row `row`, blended. */
void FN(blend_rows)(SRC x, int row, float *kept, int count, const struct resize_taps_args *a)
{
    bool anew = true;
#if DIMS > 2
    const struct FN(taps) deep = FN(taps_of)(row / a->out[1], 0, a);
#endif
#if DIMS > 1
    const struct FN(taps) high = FN(taps_of)(row % a->out[1], 1, a);
#endif
    for (int d = 0; d < (DIMS > 2 ? SPAN : 1); d++) {
        for (int h = 0; h < (DIMS > 1 ? SPAN : 1); h++) {
            float weight = 1.0f;
            long from = 0;
#if DIMS > 2
            weight = deep.weight[d] / deep.total;
            from = (long)deep.index[d] * a->in[1];
#endif
#if DIMS > 1
            weight *= high.weight[h] / high.total;
            from += high.index[h];
#endif
            if (weight == 0.0f)
                continue;
            FN(add_row)(x + from * a->in[2], weight, anew, kept, count);
            anew = false;
        }
    }
}

void FN(blend_columns)(const struct FN(columns) *restrict c, const float *restrict kept, DST y, int width)
{
    for (int i = 0; i < width; i++) {
        float sum = 0.0f;
#pragma unroll
        for (int m = 0; m < SPAN; m++)
            sum += c->weight[m][i] * kept[c->at[m][i]];
        y[i] = sum;
    }
}

void FN(body)(ulong group, SRC x, DST y, const struct resize_rows_args *a)
{
    const struct resize_taps_args *t = &a->taps;
    const int column = (int)(group % t->pieces) * COLUMNS, width = min(COLUMNS, t->out[2] - column);
    const long first = (long)(group / t->pieces) * a->run, past = min(first + (long)a->run, (long)t->rows);
    const long rows = (long)t->out[0] * t->out[1], item = (long)t->in[0] * t->in[1] * t->in[2];
    struct FN(columns) columns;
    float kept[KEPT];
    kept[0] = 0.0f;
    FN(columns_of)(&columns, column, width, t);
    for (long row = first; row < past; row++) {
        const long plane = row / rows, n = plane / t->c, c = plane % t->c, within = row % rows;
        FN(blend_rows)(x + n * t->x_n + c * item + columns.first, (int)within, kept, columns.count, t);
        FN(blend_columns)(&columns, kept, y + n * t->y_n + (c * rows + within) * t->out[2] + column, width);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, DST y, ulong y_off, const struct resize_rows_args a)
{
    FN(body)(GROUP, x + x_off, y + y_off, &a);
}
