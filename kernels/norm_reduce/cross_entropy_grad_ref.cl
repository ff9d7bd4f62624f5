/* cross_entropy_grad_ref.cl: the gradient of cross-entropy's logits.
 *
 *   dx[n][c] = (softmax(x[n])[c] - (1 - smoothing) * (c == label) - smoothing / C) * dy[n]
 *
 * For the mean, dy is one number, and N divides it. NaN where the label is no class.
 * Layouts: x, dx [N][C] with strides, labels [N]; struct cross_entropy_args.
 * Work-group: LANES work-items a row, WG / LANES rows. Local memory: WG floats.
 * Defines: MEAN (0 or 1; default 0), WG, LANES (reduce.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/types.clh"
#ifndef LANES
#define LANES WG
#endif
#include "norm_reduce/cross_entropy_rows.clh"
#ifndef FN
#define FN(x) cross_entropy_grad_ref_##x
#endif
#ifndef MEAN
#define MEAN 0
#endif
#define SCRATCH ((WG + 3) / 4)

RED_SHARE(FN(share_max), red_max)
RED_SHARE(FN(share_sum), red_sum)
CE_SUMS(FN(sums), FN(share_max), FN(share_sum))

void FN(body)(ulong group, SRC x, SRC_OF(long) labels, SRC dy, DST dx, const struct cross_entropy_args *a,
              local float4 *scratch)
{
    const long row = (long)group * (WG / LANES) + LANE / LANES;
    const bool mine = row < a->rows;
    SRC xr = x + row * a->x_n;
    float top, off;
    const float sum = FN(sums)(xr, a->length, mine, &top, &off, (local float *)scratch);
    if (mine) {
        const long label = labels[row];
        const bool known = label >= 0 && label < a->length;
        const float slope = !known ? NAN : MEAN ? dy[0] / a->rows : dy[row];
        const float all = a->smoothing / a->length, own = 1.0f - a->smoothing;
        for (long i = LANE % LANES; i < a->length; i += LANES)
            dx[row * a->dx_n + i] = (exp(xr[i] - top) / sum - (i == label ? own : 0.0f) - all) * slope;
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC_OF(long) labels, ulong labels_off, SRC dy, ulong dy_off, DST dx, ulong dx_off,
                const struct cross_entropy_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, labels + labels_off, dy + dy_off, dx + dx_off, &a, scratch);
}
