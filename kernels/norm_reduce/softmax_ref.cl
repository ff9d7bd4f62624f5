/* softmax_ref.cl: softmax and log_softmax along one dimension, safe for large values.
 *
 *   m = max_l x[l], s = sum_l exp(x[l] - m);  y[l] = exp(x[l] - m) / s  or  y[l] = x[l] - m - log(s)
 *
 * rows:     the dimension is contiguous; LANES work-items a row (n, m)
 * columns:  it is not; a row is one (n, m), a work-item has columns i of it and walks along the dimension
 * Layouts: x and y are (n, m, l, i) with batch strides; struct softmax_args.
 * Work-group: rows: WG / LANES rows; columns: rows and pieces as in rows.clh. Local memory: WG floats.
 * Defines: LOG (0: softmax, 1: log_softmax), WG, LANES (reduce.clh, rows.clh), ELEMS, RUNS, INDEX
 * (rows.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/rows.clh"
#include "common/reduce.clh"
#ifndef FN
#define FN(x) softmax_ref_##x
#endif
#ifndef LOG
#define LOG 0
#endif
#define SCRATCH ((WG + 3) / 4)

RED_FOLD(FN(fold_max), red_max)
RED_FOLD(FN(fold_sum), red_sum)
RED_PART(FN(part_max), red_max, FN(fold_max))
RED_SHARE(FN(share_max), red_max)
RED_SHARE(FN(share_sum), red_sum)

/* This work-item's part of the sum of exponentials. */
float FN(part_exp)(SRC x, int length, float top, int lane)
{
    float all = 0.0f;
    int i = lane;
    if (LANES == 1) {
        float16 wide = (float16)(0.0f);
        for (; i + 16 <= length; i += 16)
            wide += exp(vload16(0, x + i) - top);
        all = FN(fold_sum)(wide);
    }
    while (i < length) {
        const int end = min(length, i + LANES * RED_BLOCK);
        float part = 0.0f;
        for (; i < end; i += LANES)
            part += exp(x[i] - top);
        all += part;
    }
    return all;
}

void FN(write)(SRC x, DST y, int length, float top, float sum, int lane)
{
    int i = lane;
#if LOG
    const float log_sum = log(sum);
    for (; i < length; i += LANES)
        y[i] = x[i] - top - log_sum;
#else
    if (LANES == 1)
        for (; i + 16 <= length; i += 16)
            vstore16(exp(vload16(0, x + i) - top) / sum, 0, y + i);
    for (; i < length; i += LANES)
        y[i] = exp(x[i] - top) / sum;
#endif
}

void FN(rows_body)(ulong group, SRC x, DST y, const struct softmax_args *a, local float4 *scratch)
{
    local float *buf = (local float *)scratch;
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const bool mine = row < a->rows;
    const long n = row / a->middle, m = row - n * a->middle;
    SRC xr = x + n * a->x_n + m * a->middle_step;
    float top = -INFINITY, sum = 0.0f;
    if (mine)
        top = FN(part_max)(xr, a->length, 1, LANE % LANES);
    top = FN(share_max)(top, buf);
    if (mine)
        sum = FN(part_exp)(xr, a->length, top, LANE % LANES);
    sum = FN(share_sum)(sum, buf);
    if (mine)
        FN(write)(xr, y + n * a->y_n + m * a->middle_step, a->length, top, sum, LANE % LANES);
}

void FN(columns_body)(ulong group, SRC x, DST y, const struct softmax_args *a)
{
    const int length = (int)a->length;
    const INDEX row = ROW_OF(group, a->pieces);
    if (row < (INDEX)a->rows) {
        const long first = FIRST_COLUMN(group, a->pieces);
        const long n = row / (INDEX)a->middle, m = row - n * a->middle;
        SRC xr = x + n * a->x_n + m * a->middle_step;
        DST yr = y + n * a->y_n + m * a->middle_step;
        float top[ELEMS], sum[ELEMS], part[ELEMS];
        for (int e = 0; e < ELEMS; e++) {
            top[e] = -INFINITY;
            sum[e] = 0.0f;
        }
        for (int l = 0; l < length; l++) /* fmax drops NaN, which the exponentials then show */
            FOR_COLUMNS(i, first, a->inner)
        top[SLOT_OF(i, first)] = fmax(top[SLOT_OF(i, first)], xr[l * a->x_step + i]);
        for (int block = 0; block < length; block += RED_BLOCK) {
            for (int e = 0; e < ELEMS; e++)
                part[e] = 0.0f;
            for (int l = block; l < min(length, block + RED_BLOCK); l++)
                FOR_COLUMNS(i, first, a->inner)
            part[SLOT_OF(i, first)] += exp(xr[l * a->x_step + i] - top[SLOT_OF(i, first)]);
            for (int e = 0; e < ELEMS; e++)
                sum[e] += part[e];
        }
        for (int e = 0; LOG && e < ELEMS; e++)
            sum[e] = log(sum[e]);
        for (int l = 0; l < length; l++)
            FOR_COLUMNS(i, first, a->inner)
            {
                const float v = xr[l * a->x_step + i] - top[SLOT_OF(i, first)];
                yr[l * a->y_step + i] = LOG ? v - sum[SLOT_OF(i, first)] : exp(v) / sum[SLOT_OF(i, first)];
            }
    }
}

KERNEL FN(rows)(SRC x, ulong x_off, DST y, ulong y_off, const struct softmax_args a)
{
    local float4 scratch[SCRATCH];
    FN(rows_body)(GROUP, x + x_off, y + y_off, &a, scratch);
}

KERNEL FN(columns)(SRC x, ulong x_off, DST y, ulong y_off, const struct softmax_args a)
{
    FN(columns_body)(GROUP, x + x_off, y + y_off, &a);
}
