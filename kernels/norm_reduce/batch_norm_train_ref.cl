/* batch_norm_train_ref.cl: normalisation by the mean and variance of the batch, which are results, too.
 *
 *   y = act( clip((x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c], low, high) + add )
 *   with mean and biased variance of channel c over all items
 *
 * The mean is taken first, and the variance from the differences to it, which also tell how far the mean is off.
 * Layouts: N,C,(...) with batch strides; struct batch_norm_train_args.
 * Work-group: LANES work-items a channel, WG / LANES channels. Local memory: WG floats.
 * Defines: WG, LANES (reduce.clh), EPI_ADD, EPI_ACT (epilogue.clh; EPI_BIAS stays 0). */
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#include "norm_reduce/norm_reduce_args.h"
#ifndef LANES
#define LANES WG
#endif
#include "norm_reduce/channel_sums.clh"
#ifndef FN
#define FN(x) batch_norm_train_ref_##x
#endif
#define SCRATCH ((WG + 3) / 4)

RED_SHARE(FN(share), red_sum)
RED_FOLD(FN(fold), red_sum)
CHANNEL_SUMS(FN(part), FN(fold))

/* Sums of x - mean and of its square over a channel, for all of its work-items. */
float2 FN(sums)(SRC x, float mean, bool mine, const struct batch_norm_train_args *a, local float *buf)
{
    float2 all = (float2)(0.0f);
    for (int n = 0; mine && n < a->n; n++)
        all += FN(part)(x + n * a->x_n, x + n * a->x_n, a->length, mean, mean, 0, LANE % LANES);
    all.x = FN(share)(all.x, buf);
    all.y = FN(share)(all.y, buf);
    return all;
}

void FN(body)(ulong group, SRC x, SRC weight, SRC bias, SRC add, DST y, DST mean, DST var,
              const struct batch_norm_train_args *a, local float4 *scratch)
{
    local float *buf = (local float *)scratch;
    const int c = (int)group * (WG / LANES) + LANE / LANES;
    const bool mine = c < a->c;
    const float count = (float)(a->n * a->length);
    SRC xc = x + c * a->length;
    const float centre = FN(sums)(xc, 0.0f, mine, a, buf).x / count;
    const float2 rest = FN(sums)(xc, centre, mine, a, buf) / count;
    const float spread = rest.y - rest.x * rest.x, variance = spread < 0.0f ? 0.0f : spread; /* NaN stays */
    if (mine) {
        const float scale = weight[c] / sqrt(variance + a->eps), shift = bias[c];
        for (int n = 0; n < a->n; n++)
            for (long i = LANE % LANES; i < a->length; i += LANES) {
                const float v = act_clip(fma(xc[n * a->x_n + i] - centre - rest.x, scale, shift), a->low, a->high);
                y[n * a->y_n + c * a->length + i] = EPILOGUE(v, bias, c, add, n * a->add_n + c * a->length + i, a);
            }
        if (LANE % LANES == 0) {
            mean[c] = centre + rest.x;
            var[c] = variance;
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, DST mean, ulong mean_off, DST var, ulong var_off,
                const struct batch_norm_train_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, add + add_off, y + y_off, mean + mean_off,
             var + var_off, &a, scratch);
}
