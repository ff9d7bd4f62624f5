/* conv_sum_parts.cl: a convolution whose depth was split between groups, put together: the end of conv_mma.cl,
 * conv_wgmma.cl, conv_implicit.cl and conv_winograd_fused.cl with SPLIT 1.
 *
 *   y[n][k][p] = act( sum_s partial[s][k][n*P*Q + p] + bias[k] + add[n][k][p] ),  s in ascending order
 *
 * Layouts: partial dense [split_k][K][N*P*Q]; y, add NCHW with batch strides.
 * Index map: item = k * N*P*Q + n*P*Q + p.
 * Work-group: WG items. Local memory: none. Defines: WG (any), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh), ADD_HALF,
 * Y_HALF (maps.clh). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#ifndef FN
#define FN(x) conv_sum_parts_##x
#endif

void FN(body)(ulong group, SRC partial, SRC bias, ADD_SRC add, Y_DST y, const struct conv_split_k_args *a)
{
    const long item = (long)group * WG + LANE, pixels = (long)a->n * a->map, all = pixels * a->k;
    if (item < all) {
        const int k = (int)(item / pixels);
        const long q = item % pixels, n = q / a->map, p = k * a->map + q % a->map;
        float sum = partial[item];
        for (int s = 1; s < a->split_k; s++)
            sum += partial[s * all + item];
        STORE_Y(EPILOGUE_OF(sum, bias, k, LOAD_ADD(add, n * a->add_n + p), a), y, n * a->dst_n + p);
    }
}

KERNEL FN(main)(SRC partial, ulong partial_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y,
                ulong y_off, const struct conv_split_k_args a)
{
    FN(body)(GROUP, partial + partial_off, bias + bias_off, add + add_off, y + y_off, &a);
}
