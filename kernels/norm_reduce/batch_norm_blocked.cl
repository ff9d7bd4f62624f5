/* batch_norm_blocked.cl: normalisation of maps with channels in blocks by running statistics, for CPU devices.
 *
 *   y = act( (x - mean[c]) * (weight[c] / sqrt(var[c] + eps)) + bias[c] + add )
 *
 * Layouts: x, y, add [ceil(C/V)][pixels][V] with batch strides; lanes of y past C are written as zeros.
 * Index map: group = (n * blocks + block) * parts + part; a work-item computes `run` pixels of one block of channels.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "norm_reduce/norm_reduce_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) batch_norm_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"

/* One value a channel; `other` past the last, where the array may end. */
FV FN(channels)(SRC values, int first, int count, float other)
{
    float v[V];
    for (int j = 0; j < V; j++)
        v[j] = first + j < count ? values[first + j] : other;
    return LOADV(v, 0);
}

void FN(body)(ulong group, SRC x, SRC weight, SRC bias, SRC mean, SRC var, SRC add, DST y,
              const struct batch_norm_blocked_args *a)
{
    const int blocks = (a->c + V - 1) / V, parts = (a->pixels + a->run - 1) / a->run;
    const int first = (int)(group % parts) * a->run, past = min(first + a->run, a->pixels);
    const int block = (int)(group / parts % blocks), c = block * V;
    const long n = (long)(group / parts / blocks), at = (long)block * a->pixels * V;
    const FV scale = FN(channels)(weight, c, a->c, 0.0f) / sqrt(FN(channels)(var, c, a->c, 1.0f) + a->eps);
    const FV centre = FN(channels)(mean, c, a->c, 0.0f), shift = FN(channels)(bias, c, a->c, 0.0f);
    SRC xb = x + n * a->x_n + at;
    SRC ab = add + n * a->add_n + at;
    DST yb = y + n * a->y_n + at;
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    for (int i = first; i < past; i++)
        FN(store)(fma(LOADV(xb, (long)i * V) - centre, scale, shift), (FV)0.0f, ab, yb, (long)i * V, a->c - c, &epi);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC weight, ulong weight_off, SRC bias, ulong bias_off, SRC mean, ulong mean_off,
                SRC var, ulong var_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct batch_norm_blocked_args a)
{
    FN(body)(GROUP, x + x_off, weight + weight_off, bias + bias_off, mean + mean_off, var + var_off, add + add_off,
             y + y_off, &a);
}
