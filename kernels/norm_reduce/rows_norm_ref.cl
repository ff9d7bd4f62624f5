/* rows_norm_ref.cl: rows of elements brought to mean 0 and variance 1, then scaled: instance, group and layer norm.
 *
 *   y[i] = (x[i] - mean) / sqrt(variance + eps) * weight[k] + bias[k], mean and variance of the row that i is in
 *
 * The mean is taken first, and the variance from the differences to it.
 * Layouts: struct rows_norm_args; weight and bias are absent as the defines say.
 * Work-group: LANES work-items a row, WG / LANES rows. Local memory: WG floats.
 * Defines: WEIGHT, BIAS (1: present; default 0), WG, LANES (reduce.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#ifndef LANES
#define LANES WG
#endif
#include "common/reduce.clh"
#ifndef FN
#define FN(x) rows_norm_ref_##x
#endif
#ifndef WEIGHT
#define WEIGHT 0
#endif
#ifndef BIAS
#define BIAS 0
#endif
#define SCRATCH ((WG + 3) / 4)

RED_SHARE(FN(share), red_sum)

/* This work-item's part of the sum of x - mean, or of its square. */
float FN(sum)(SRC x, const struct rows_norm_args *a, float mean, bool square, int lane)
{
    float all = 0.0f;
    for (long part = 0; part < a->parts; part++)
        for (long block = lane; block < a->length; block += LANES * RED_BLOCK) {
            const long end = min(a->length, block + LANES * RED_BLOCK);
            float some = 0.0f;
            for (long i = block; i < end; i += LANES) {
                const float v = x[part * a->x_part + i] - mean;
                some += square ? v * v : v;
            }
            all += some;
        }
    return all;
}

void FN(body)(ulong group, SRC x, SRC weight, SRC bias, DST y, const struct rows_norm_args *a, local float4 *scratch)
{
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const bool works = row < a->rows;
    const long item = works ? row / a->per_item : 0, number = works ? row % a->per_item : 0;
    const float count = (float)(a->parts * a->length);
    SRC xr = x + item * a->x_n + number * a->length;
    float sum = works ? FN(sum)(xr, a, 0.0f, false, LANE % LANES) : 0.0f;
    const float mean = FN(share)(sum, (local float *)scratch) / count;
    sum = works ? FN(sum)(xr, a, mean, true, LANE % LANES) : 0.0f;
    const float scale = 1.0f / sqrt(FN(share)(sum, (local float *)scratch) / count + a->eps);
    for (long part = 0; works && part < a->parts; part++)
        for (long i = LANE % LANES; i < a->length; i += LANES) {
            const long k = number * a->row_step + (part * a->length + i) / a->run;
            float v = (xr[part * a->x_part + i] - mean) * scale;
            if (WEIGHT)
                v *= weight[k];
            if (BIAS)
                v += bias[k];
            y[item * a->y_n + number * a->length + part * a->y_part + i] = v;
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST y, ulong y_off,
                const struct rows_norm_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, y + y_off, &a, scratch);
}
