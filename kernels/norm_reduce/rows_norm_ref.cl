/* rows_norm_ref.cl: rows of elements by their own statistics, then scaled: instance, group, layer, RMS and L2 norm;
 * then the activation.
 *
 *   KIND 0: y[i] = (x[i] - mean) / sqrt(variance + eps) * weight[k] + bias[k], mean and variance of the row that i is
 *   in KIND 1: y[i] = x[i] / sqrt(mean square + eps) * weight[k]
 *   KIND 2: y[i] = x[i] / max(root of the sum of squares, eps)
 *
 * The mean is taken first, and the variance from the differences to it, which also tell how far the mean is off.
 * Layouts: struct rows_norm_args.
 * Work-group: LANES work-items a row, WG / LANES rows. Local memory: WG floats.
 * Defines: KIND (0, 1, 2; default 0), EPI_ACT act_*, WG, LANES (reduce.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#ifndef LANES
#define LANES WG
#endif
#include "common/reduce.clh"
#ifndef FN
#define FN(x) rows_norm_ref_##x
#endif
#ifndef KIND
#define KIND 0
#endif
#define SCRATCH ((WG + 3) / 4)

RED_SHARE(FN(share), red_sum)

/* This work-item's part of the sums of x - mean and of its square. */
float2 FN(sums)(SRC x, const struct rows_norm_args *a, float mean, int lane)
{
    float2 all = (float2)(0.0f);
    for (long part = 0; part < a->parts; part++)
        for (long block = lane; block < a->length; block += LANES * RED_BLOCK) {
            const long end = min((long)a->length, block + LANES * RED_BLOCK);
            float2 some = (float2)(0.0f);
            for (long i = block; i < end; i += LANES) {
                const float v = x[part * a->x_part + i * a->step] - mean;
                some += (float2)(v, v * v);
            }
            all += some;
        }
    return all;
}

/* What a row is multiplied by: sums of differences to a mean and of their squares; shift: what is still to be taken
 * off. */
float FN(scale)(float2 sums, float count, float eps, float *shift)
{
    *shift = KIND == 0 ? sums.x / count : 0.0f;
    if (KIND == 2) {
        const float norm = sqrt(sums.y);
        return 1.0f / (norm < eps ? eps : norm); /* NaN stays */
    }
    const float variance = sums.y / count - *shift * *shift;
    return 1.0f / sqrt((variance < 0.0f ? 0.0f : variance) + eps);
}

void FN(body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct rows_norm_args *a, local float4 *scratch)
{
    local float *buf = (local float *)scratch;
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const bool works = row < a->rows;
    const long item = works ? row / a->per_item : 0, number = works ? row % a->per_item : 0;
    const long at = number / a->step * a->length * a->step + number % a->step;
    const float count = (float)(a->parts * a->length);
    const float2 nothing = (float2)(0.0f);
    SRC xr = x + item * a->x_n + at;
    DST yr = y + item * a->y_n + at;
    float2 sums = works && KIND == 0 ? FN(sums)(xr, a, 0.0f, LANE % LANES) : nothing;
    const float mean = KIND == 0 ? FN(share)(sums.x, buf) / count : 0.0f;
    sums = works ? FN(sums)(xr, a, mean, LANE % LANES) : nothing;
    if (KIND == 0)
        sums.x = FN(share)(sums.x, buf);
    sums.y = FN(share)(sums.y, buf);
    float shift;
    const float scale = FN(scale)(sums, count, a->eps, &shift);
    const bool whole = a->run >= a->length; /* one parameter a row: no division for each element */
    for (long part = 0; works && part < a->parts; part++)
        for (long i = LANE % LANES; i < a->length; i += LANES) {
            const long j = part * a->length + i, k = number * a->row_step + (a->run == 1 ? j : whole ? 0 : j / a->run);
            float v = ((xr[part * a->x_part + i * a->step] - mean) - shift) * scale;
            if (a->weight)
                v *= weight[k];
            if (a->bias)
                v += bias[k];
            yr[part * a->y_part + i * a->step] = EPI_ACT(v, a->p0, a->p1);
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                const struct rows_norm_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a, scratch);
}
