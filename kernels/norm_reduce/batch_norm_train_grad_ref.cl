/* batch_norm_train_grad_ref.cl: the gradients of batch norm by the batch's own statistics.
 *
 *   dbias[c] = sum of dy, dweight[c] = sum of dy * n, with n = (x - mean[c]) / sqrt(var[c] + eps), over all items; dy
 *   is 0 where y was clipped dx = weight[c] / sqrt(var[c] + eps) * (dy - dbias[c] / M - n * dweight[c] / M), M the
 *   elements of a channel
 *
 * Layouts: N,C,(...) with batch strides; struct batch_norm_train_args.
 * Work-group: LANES work-items a channel, WG / LANES channels. Local memory: WG floats.
 * Defines: WG, LANES (reduce.clh). */
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#ifndef LANES
#define LANES WG
#endif
#include "norm_reduce/channel_sums.clh"
#ifndef FN
#define FN(x) batch_norm_train_grad_ref_##x
#endif
#define SCRATCH ((WG + 3) / 4)

RED_SHARE(FN(share), red_sum)
RED_FOLD(FN(fold), red_sum)
CHANNEL_SUMS(FN(part), FN(fold))

void FN(body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC bias, DST dx, DST dweight, DST dbias,
              const struct batch_norm_train_args *a, local float4 *scratch)
{
    local float *buf = (local float *)scratch;
    const int c = (int)group * (WG / LANES) + LANE / LANES;
    const bool mine = c < a->c;
    const float count = (float)(a->n * a->length), centre = mine ? mean[c] : 0.0f;
    const float over = mine ? 1.0f / sqrt(var[c] + a->eps) : 0.0f;
    const struct channel_limits limits = {mine ? weight[c] * over : 0.0f, mine ? bias[c] : 0.0f, a->low, a->high};
    SRC xc = x + c * a->length;
    SRC yc = dy + c * a->length;
    float2 sums = (float2)(0.0f);
    for (int n = 0; mine && n < a->n; n++)
        sums += FN(part)(yc + n * a->dy_n, xc + n * a->x_n, a->length, 0.0f, centre, &limits, LANE % LANES);
    sums.x = FN(share)(sums.x, buf);
    sums.y = FN(share)(sums.y, buf);
    if (mine) {
        const float middle = sums.x / count, slope = sums.y / count * over * over;
        for (int n = 0; n < a->n; n++)
            for (long i = LANE % LANES; i < a->length; i += LANES) {
                const float at = xc[n * a->x_n + i];
                const float d = CHANNEL_BETWEEN(float, yc[n * a->dy_n + i], at, centre, &limits);
                dx[n * a->y_n + c * a->length + i] = limits.scale * (d - middle - (at - centre) * slope);
            }
        if (LANE % LANES == 0) {
            dweight[c] = sums.y * over;
            dbias[c] = sums.x;
        }
    }
}

KERNEL FN(main)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                SRC var, ulong var_off, SRC bias, ulong bias_off, DST dx, ulong dx_off, DST dweight, ulong dweight_off,
                DST dbias, ulong dbias_off, const struct batch_norm_train_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, bias + bias_off,
             dx + dx_off, dweight + dweight_off, dbias + dbias_off, &a, scratch);
}
