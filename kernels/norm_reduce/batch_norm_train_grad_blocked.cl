/* batch_norm_train_grad_blocked.cl: the gradients of batch norm by the batch's own statistics, on channel blocks, for
 * CPU devices.
 *
 *   dbias[c] = sum of dy, dweight[c] = sum of dy * n, with n = (x - mean[c]) / sqrt(var[c] + eps), over all items
 *   dx = weight[c] / sqrt(var[c] + eps) * (dy - dbias[c] / M - n * dweight[c] / M), M the elements of a channel
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

void FN(sums_of)(int block, int part, SRC dy, SRC x, SRC mean, DST sums, const struct channel_parts_args *a)
{
    const long plane = (long)block * a->pixels * V, first = part * a->run;
    FN(sum_part)(dy + plane, a->dy_n, x + plane, a->x_n, (FV)0.0f, FN(channels)(mean, block, a->c, 0.0f), first,
                 min(first + a->run, (long)a->n * a->pixels), a->pixels,
                 sums + ((long)block * a->parts + part) * 2 * V);
}

void FN(apply_to)(int block, int part, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC sums, DST dx, DST dweight,
                  DST dbias, const struct channel_parts_args *a)
{
    const long plane = (long)block * a->pixels * V, all = (long)a->n * a->pixels;
    FV s, q;
    FN(totals)(sums + (long)block * a->parts * 2 * V, a->parts, &s, &q);
    const FV over = 1.0f / sqrt(FN(channels)(var, block, a->c, 1.0f) + a->eps);
    const FV scale = FN(channels)(weight, block, a->c, 0.0f) * over, centre = FN(channels)(mean, block, a->c, 0.0f);
    const FV middle = s / (float)all, slope = q / (float)all * over * over;
    const IV live = LANES_V < (IV)(a->c - block * V);
    const long past = min((part + 1) * a->run, all);
    for (long i = part * a->run; i < past;) {
        const long n = i / a->pixels, from = i - n * a->pixels, count = min(past - i, a->pixels - from);
        SRC yn = dy + n * a->dy_n + plane + from * V;
        SRC xn = x + n * a->x_n + plane + from * V;
        DST dn = dx + n * a->y_n + plane + from * V;
        for (long k = 0; k < count; k++) {
            const FV v = scale * (LOADV(yn, k * V) - middle - (LOADV(xn, k * V) - centre) * slope);
            STOREV(select((FV)0.0f, v, live), dn, k * V);
        }
        i += count;
    }
    if (part == 0) {
        FN(give)(dweight, q * over, block, a->c);
        FN(give)(dbias, s, block, a->c);
    }
}

void FN(sums_body)(ulong group, SRC dy, SRC x, SRC mean, DST sums, const struct channel_parts_args *a)
{
    FN(sums_of)((int)(group / a->parts), (int)(group % a->parts), dy, x, mean, sums, a);
}

void FN(apply_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, SRC sums, DST dx, DST dweight, DST dbias,
                    const struct channel_parts_args *a)
{
    const struct channel_parts_args args = *a; /* a copy: stores of dx cannot change it */
    FN(apply_to)((int)(group / args.parts), (int)(group % args.parts), dy, x, weight, mean, var, sums, dx, dweight,
                 dbias, &args);
}

void FN(whole_body)(ulong group, SRC dy, SRC x, SRC weight, SRC mean, SRC var, DST sums, DST dx, DST dweight, DST dbias,
                    const struct channel_parts_args *a)
{
    const struct channel_parts_args args = *a;
    for (int part = 0; part < args.parts; part++)
        FN(sums_of)((int)group, part, dy, x, mean, sums, &args);
    for (int part = 0; part < args.parts; part++)
        FN(apply_to)((int)group, part, dy, x, weight, mean, var, sums, dx, dweight, dbias, &args);
}

KERNEL FN(sums)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC mean, ulong mean_off, DST sums, ulong sums_off,
                const struct channel_parts_args a)
{
    FN(sums_body)(GROUP, dy + dy_off, x + x_off, mean + mean_off, sums + sums_off, &a);
}

KERNEL FN(apply)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                 SRC var, ulong var_off, SRC sums, ulong sums_off, DST dx, ulong dx_off, DST dweight, ulong dweight_off,
                 DST dbias, ulong dbias_off, const struct channel_parts_args a)
{
    FN(apply_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, sums + sums_off,
                   dx + dx_off, dweight + dweight_off, dbias + dbias_off, &a);
}

KERNEL FN(whole)(SRC dy, ulong dy_off, SRC x, ulong x_off, SRC weight, ulong weight_off, SRC mean, ulong mean_off,
                 SRC var, ulong var_off, DST sums, ulong sums_off, DST dx, ulong dx_off, DST dweight, ulong dweight_off,
                 DST dbias, ulong dbias_off, const struct channel_parts_args a)
{
    FN(whole_body)(GROUP, dy + dy_off, x + x_off, weight + weight_off, mean + mean_off, var + var_off, sums + sums_off,
                   dx + dx_off, dweight + dweight_off, dbias + dbias_off, &a);
}
