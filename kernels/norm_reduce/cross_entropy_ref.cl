/* cross_entropy_ref.cl: cross-entropy of logits and labels, safe for large values.
 *
 *   losses: y[n] = log(sum_c exp(x[n][c] - top)) - (1 - smoothing) * (x[n][label] - top)
 *                  - smoothing * mean_c(x[n][c] - top), top the largest of x[n]; NaN where the label is no class
 *   mean:   y = sum_n losses[n] / N
 *
 * Layouts: x [N][C] with a stride, labels and losses [N]; struct cross_entropy_args.
 * Work-group: LANES work-items a row, WG / LANES rows; mean is one row. Local memory: WG floats.
 * Defines: WG, LANES (reduce.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#ifndef LANES
#define LANES WG
#endif
#include "norm_reduce/cross_entropy_rows.clh"
#ifndef FN
#define FN(x) cross_entropy_ref_##x
#endif
#define SCRATCH ((WG + 3) / 4)

RED_SHARE(FN(share_max), red_max)
RED_SHARE(FN(share_sum), red_sum)
CE_SUMS(FN(sums), FN(share_max), FN(share_sum))

void FN(losses_body)(ulong group, SRC x, SRC_OF(long) labels, DST y, const struct cross_entropy_args *a,
                     local float4 *scratch)
{
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const bool mine = row < a->rows;
    SRC xr = x + row * a->x_n;
    float top, off;
    const float sum = FN(sums)(xr, a->length, mine, &top, &off, (local float *)scratch);
    if (LANE % LANES == 0 && mine) {
        const long label = labels[row];
        const bool known = label >= 0 && label < a->length;
        const float wanted = known ? (1.0f - a->smoothing) * (xr[label] - top) : NAN;
        y[row] = log(sum) - wanted - (a->smoothing > 0.0f ? a->smoothing * (off / a->length) : 0.0f);
    }
}

void FN(mean_body)(ulong group, SRC losses, DST y, const struct cross_entropy_args *a, local float4 *scratch)
{
    const bool mine = group * (WG / LANES) + LANE / LANES == 0;
    float sum = 0.0f;
    for (long block = LANE % LANES; mine && block < a->rows; block += LANES * RED_BLOCK) {
        float some = 0.0f;
        for (long i = block; i < min((long)a->rows, block + LANES * RED_BLOCK); i += LANES)
            some += losses[i];
        sum += some;
    }
    sum = FN(share_sum)(sum, (local float *)scratch);
    if (mine && LANE == 0)
        y[0] = sum / a->rows;
}

KERNEL FN(losses)(SRC x, ulong x_off, SRC_OF(long) labels, ulong labels_off, DST y, ulong y_off,
                  const struct cross_entropy_args a)
{
    local float4 scratch[SCRATCH];
    FN(losses_body)(GROUP, x + x_off, labels + labels_off, y + y_off, &a, scratch);
}

KERNEL FN(mean)(SRC losses, ulong losses_off, DST y, ulong y_off, const struct cross_entropy_args a)
{
    local float4 scratch[SCRATCH];
    FN(mean_body)(GROUP, losses + losses_off, y + y_off, &a, scratch);
}
