/* batch_norm_train_grad_blocked.cl: the gradients of batch norm by the batch's own statistics, on channel blocks, for
 * CPU devices.
 *
 *   dbias[c] = sum of dy, dweight[c] = sum of dy * n, with n = (x - mean[c]) / sqrt(var[c] + eps), over all items; dy
 *   is 0 where y was clipped dx = weight[c] / sqrt(var[c] + eps) * (dy - dbias[c] / M - n * dweight[c] / M), M the
 *   elements of a channel
 *
 * sums, apply, whole: as in batch_norm_train_blocked.cl; the sums are those of dy and of dy * (x - mean).
 * Layouts: dy, x, dx [ceil(C/V)][pixels][V] with batch strides; lanes of dx past C are zeros. sums:
 * [ceil(C/V)][parts][2][V].
 * Index map: sums, apply: group = block * parts + part; whole: group = block.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8. */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) batch_norm_train_grad_blocked_##x
#endif
#include "norm_reduce/channel_parts.clh"

/* What y was made by. */
struct FN(limits) FN(limits_of)(int block, SRC weight, SRC mean, SRC var, SRC bias, const struct channel_parts_args *a)
{
    struct FN(limits) l;
    l.centre = FN(channels)(mean, block, a->c, 0.0f);
    l.scale = FN(channels)(weight, block, a->c, 0.0f) / sqrt(FN(channels)(var, block, a->c, 1.0f) + a->eps);
    l.shift = FN(channels)(bias, block, a->c, 0.0f);
    l.low = a->low;
    l.high = a->high;
    return l;
}

void FN(sums_of)(int block, int part, SRC dy, SRC x, const struct FN(limits) *l, DST sums,
                 const struct channel_parts_args *a)
{
    const long plane = (long)block * a->pixels * V, first = part * a->run;
    FN(sum_part)(dy + plane, a->dy_n, x + plane, a->x_n, (FV)0.0f, l->centre, l, first,
                 min(first + a->run, (long)a->n * a->pixels), a->pixels,
                 sums + ((long)block * a->parts + part) * 2 * V);
}

void FN(apply_to)(int block, int part, SRC dy, SRC x, SRC var, const struct FN(limits) *l, SRC sums, DST dx,
                  DST dweight, DST dbias, const struct channel_parts_args *a)
{
    const long plane = (long)block * a->pixels * V, all = (long)a->n * a->pixels;
    FV s, q;
    FN(totals)(sums + (long)block * a->parts * 2 * V, a->parts, &s, &q);
    const FV over = 1.0f / sqrt(FN(channels)(var, block, a->c, 1.0f) + a->eps);
    const FV middle = s / (float)all, slope = q / (float)all * over * over;
    const IV live = LANES_V < (IV)(a->c - block * V);
    const long past = min((part + 1) * a->run, all);
    for (long i = part * a->run; i < past;) {
        const long n = i / a->pixels, from = i - n * a->pixels, count = min(past - i, a->pixels - from);
        SRC yn = dy + n * a->dy_n + plane + from * V;
        SRC xn = x + n * a->x_n + plane + from * V;
        DST dn = dx + n * a->y_n + plane + from * V;
        for (long k = 0; k < count; k++) {
            const FV at = LOADV(xn, k * V), d = FN(between)(LOADV(yn, k * V), at, l);
            const FV v = l->scale * (d - middle - (at - l->centre) * slope);
            STOREV(select((FV)0.0f, v, live), dn, k * V);
        }
        i += count;
    }
    if (part == 0) {
        FN(give)(dweight, q * over, block, a->c);
        FN(give)(dbias, s, block, a->c);
    }
}

void FN(sums_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC bias, DST sums,
                   const struct channel_parts_args *a)
{
    const int block = (int)(group / a->parts);
    const struct FN(limits) l = FN(limits_of)(block, weight, mean, var, bias, a);
    FN(sums_of)(block, (int)(group % a->parts), dy, x, &l, sums, a);
}

void FN(apply_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC bias, SRC sums, DST dx, DST dweight,
                    DST dbias, const struct channel_parts_args *a)
{
    const struct channel_parts_args args = *a; /* a copy: stores of dx cannot change it */
    const int block = (int)(group / args.parts);
    const struct FN(limits) l = FN(limits_of)(block, weight, mean, var, bias, &args);
    FN(apply_to)(block, (int)(group % args.parts), dy, x, var, &l, sums, dx, dweight, dbias, &args);
}

void FN(whole_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC bias, DST sums, DST dx, DST dweight,
                    DST dbias, const struct channel_parts_args *a)
{
    const struct channel_parts_args args = *a;
    const struct FN(limits) l = FN(limits_of)((int)group, weight, mean, var, bias, &args);
    for (int part = 0; part < args.parts; part++)
        FN(sums_of)((int)group, part, dy, x, &l, sums, &args);
    for (int part = 0; part < args.parts; part++)
        FN(apply_to)((int)group, part, dy, x, var, &l, sums, dx, dweight, dbias, &args);
}

KERNEL FN(sums)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                SRC var, ulong var_off, SRC bias, ulong bias_off, DST sums, ulong sums_off,
                const struct channel_parts_args a)
{
    FN(sums_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, bias + bias_off,
                  sums + sums_off, &a);
}

KERNEL FN(apply)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                 SRC var, ulong var_off, SRC bias, ulong bias_off, SRC sums, ulong sums_off, DST dx, ulong dx_off,
                 DST dweight, ulong dweight_off, DST dbias, ulong dbias_off, const struct channel_parts_args a)
{
    FN(apply_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, bias + bias_off,
                   sums + sums_off, dx + dx_off, dweight + dweight_off, dbias + dbias_off, &a);
}

KERNEL FN(whole)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                 SRC var, ulong var_off, SRC bias, ulong bias_off, DST sums, ulong sums_off, DST dx, ulong dx_off,
                 DST dweight, ulong dweight_off, DST dbias, ulong dbias_off, const struct channel_parts_args a)
{
    FN(whole_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, bias + bias_off,
                   sums + sums_off, dx + dx_off, dweight + dweight_off, dbias + dbias_off, &a);
}
