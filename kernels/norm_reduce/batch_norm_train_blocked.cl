/* batch_norm_train_blocked.cl: normalisation by the mean and variance of the batch, which are results, too, on channel
 * blocks, for CPU devices.
 *
 *   y = act( clip((x - mean[c]) / sqrt(var[c] + eps) * weight[c] + bias[c], low, high) + add )
 *   with mean and biased variance of channel c over all items
 *
 * sums:   the sums of a part of a block, of differences to a pivot, the mean of a few pixels, and of their squares
 * apply:  then: mean and variance of a block from the sums of its parts, in their order, and the results of a part
 * whole:  both for one block after the other, where that one stays in a cache
 * Layouts: x, y, add [ceil(C/V)][pixels][V] with batch strides; lanes of y past C are zeros. sums:
 * [ceil(C/V)][parts][2][V].
 * Index map: sums, apply: group = block * parts + part; whole: group = block.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) batch_norm_train_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "norm_reduce/channel_parts.clh"
#define PIVOT_PIXELS 64

/* A number near the mean of each channel of a block: that of pixels spread evenly over the first item. */
FV FN(pivot)(SRC xb, int pixels)
{
    const int step = (pixels + PIVOT_PIXELS - 1) / PIVOT_PIXELS;
    FV all = 0.0f;
    int count = 0;
    for (int i = 0; i < pixels; i += step, count++)
        all += LOADV(xb, (long)i * V);
    return all / (float)count;
}

void FN(sums_of)(int block, int part, SRC x, DST sums, const struct channel_parts_args *a)
{
    const long plane = (long)block * a->pixels * V, first = part * a->run;
    const FV pivot = FN(pivot)(x + plane, a->pixels);
    FN(sum_part)(x + plane, a->x_n, x + plane, a->x_n, pivot, pivot, 0, first,
                 min(first + a->run, (long)a->n * a->pixels), a->pixels,
                 sums + ((long)block * a->parts + part) * 2 * V);
}

void FN(apply_to)(int block, int part, SRC x, SRC weight, SRC bias, SRC sums, SRC add, DST y, DST mean, DST var,
                  const struct channel_parts_args *a)
{
    const long plane = (long)block * a->pixels * V, all = (long)a->n * a->pixels;
    const FV pivot = FN(pivot)(x + plane, a->pixels);
    FV s, q;
    FN(totals)(sums + (long)block * a->parts * 2 * V, a->parts, &s, &q);
    const FV shift = s / (float)all, spread = fma(-s, shift, q) / (float)all;
    const FV variance = select(spread, (FV)0.0f, spread < 0.0f); /* NaN stays */
    const FV scale = FN(channels)(weight, block, a->c, 0.0f) / sqrt(variance + a->eps);
    const FV offset = fma(-shift, scale, FN(channels)(bias, block, a->c, 0.0f));
    const struct blocked_epilogue epi = a->epi;
    const long past = min((part + 1) * a->run, all);
    for (long i = part * a->run; i < past;) {
        const long n = i / a->pixels, from = i - n * a->pixels, count = min(past - i, a->pixels - from);
        SRC xn = x + n * a->x_n + plane + from * V;
        SRC an = add + n * a->add_n + plane + from * V;
        DST yn = y + n * a->y_n + plane + from * V;
        for (long k = 0; k < count; k++)
            FN(store)(FN(act_clip)(fma(LOADV(xn, k * V) - pivot, scale, offset), a->low, a->high), (FV)0.0f, an, yn,
                      k * V, a->c - block * V, &epi);
        i += count;
    }
    if (part == 0) {
        FN(give)(mean, pivot + shift, block, a->c);
        FN(give)(var, variance, block, a->c);
    }
}

void FN(sums_body)(ulong group, SRC x, DST sums, const struct channel_parts_args *a)
{
    FN(sums_of)((int)(group / a->parts), (int)(group % a->parts), x, sums, a);
}

void FN(apply_body)(ulong group, SRC x, SRC weight, SRC bias, SRC sums, SRC add, DST y, DST mean, DST var,
                    const struct channel_parts_args *a)
{
    const struct channel_parts_args args = *a; /* a copy: stores of y cannot change it */
    FN(apply_to)((int)(group / args.parts), (int)(group % args.parts), x, weight, bias, sums, add, y, mean, var, &args);
}

void FN(whole_body)(ulong group, SRC x, SRC weight, SRC bias, DST sums, SRC add, DST y, DST mean, DST var,
                    const struct channel_parts_args *a)
{
    const struct channel_parts_args args = *a;
    for (int part = 0; part < args.parts; part++)
        FN(sums_of)((int)group, part, x, sums, &args);
    for (int part = 0; part < args.parts; part++)
        FN(apply_to)((int)group, part, x, weight, bias, sums, add, y, mean, var, &args);
}

KERNEL FN(sums)(SRC x, ulong x_off, DST sums, ulong sums_off, const struct channel_parts_args a)
{
    FN(sums_body)(GROUP, x + x_off, sums + sums_off, &a);
}

KERNEL FN(apply)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC sums, ulong sums_off,
                 SRC add, ulong add_off, DST y, ulong y_off, DST mean, ulong mean_off, DST var, ulong var_off,
                 const struct channel_parts_args a)
{
    FN(apply_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, sums + sums_off, add + add_off, y + y_off,
                   mean + mean_off, var + var_off, &a);
}

KERNEL FN(whole)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, DST sums, ulong sums_off,
                 SRC add, ulong add_off, DST y, ulong y_off, DST mean, ulong mean_off, DST var, ulong var_off,
                 const struct channel_parts_args a)
{
    FN(whole_body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, sums + sums_off, add + add_off, y + y_off,
                   mean + mean_off, var + var_off, &a);
}
