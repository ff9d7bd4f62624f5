/* conv_gemm1x1.cl: 1x1 convolution as a matrix product, pixels picked by the stride; no column matrix.
 *
 *   y[n][k][oh][ow] = act( sum_c w[k][c] x[n][c][oh*sh][ow*sw] + bias[k] + add[n][k][oh][ow] )
 *
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl: [ceil(K/BM)][C][BM], missing filters
 * are zeros.
 * Index map: group = block of filters * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow).
 * Work-group: WG. Local memory: one tile of each operand (conv_tile.clh), TILE_SCRATCH float4; the next tile
 * waits in registers meanwhile.
 * Defines: WG 256, BM, BN 64 or 128, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#ifndef FN
#define FN(x) conv_gemm1x1_##x
#endif
#undef TILE_ARGS
#define TILE_ARGS struct conv_args
#include "conv_tile.clh"

/* Channels d.. of this work-item's pixel. */
void FN(fetch_pixel)(float *v, SRC x, bool present, int d, int channels, long plane)
{
#pragma unroll
    for (int i = 0; i < PIXEL_PARTS; i++) {
        const int c = d + LANE / BN + i * PIXEL_STEP;
        v[i] = present && c < channels ? x[c * plane] : 0.0f;
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a,
              local float4 *scratch)
{
    const long map = (long)a->out[1] * a->out[2], plane = (long)a->in[1] * a->in[2];
    const long pixels = map * a->n, tiles = (pixels + BN - 1) / BN;
    const int block = (int)(group / tiles);
    const long first = (long)(group % tiles) * BN;
    local float *as = (local float *)scratch, *bs = as + BK * AS;

    const bool present = first + LANE % BN < pixels;
    const long p = min(first + LANE % BN, pixels - 1);
    const int at = (int)(p % map);
    SRC xp = x + p / map * a->src_n + (long)(at / a->out[2] * a->stride[1]) * a->in[2] +
             at % a->out[2] * a->stride[2];
    SRC wp = w + (long)block * a->c * BM;

    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float f[FILTER_PARTS], v[PIXEL_PARTS];
    FN(fetch_filters)(f, wp, 0, a->c);
    FN(fetch_pixel)(v, xp, present, 0, a->c, plane);
    for (int d = 0; d < a->c; d += BK) {
        FN(put)(as, bs, f, v);
        if (d + BK < a->c) {
            FN(fetch_filters)(f, wp, d + BK, a->c);
            FN(fetch_pixel)(v, xp, present, d + BK, a->c, plane);
        }
        FN(tile_multiply)(as, bs, acc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    FN(store)(acc, block * BM, a->k, first, pixels, map, bias, add, y, a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off,
                DST y, ulong y_off, const struct conv_args a)
{
    local float4 scratch[TILE_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
