/* conv_gemm1x1.cl: 1x1 convolution as a matrix product, pixels picked by the stride; no column matrix.
 *
 *   y[n][k][oh][ow] = act( sum_c w[k][c] x[n][c][oh*sh][ow*sw] + bias[k] + add[n][k][oh][ow] )
 *
 * Layouts: x, y, add NCHW with batch strides; w packed by conv_pack.cl: [ceil(K/BM)][C][BM], missing filters are zeros.
 * Index map: group = block of filters * ceil(N*P*Q / BN) + tile of pixels in the order of (n, oh, ow).
 * Work-group: 256. Local memory: one tile of each operand (gemm_tile.clh), TILE_SCRATCH float4; the next tile waits in
 * registers meanwhile.
 * Defines: BM, BN 64 or 128, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "clcnn.clh"
#include "args.h"
#include "epilogue.clh"
#ifndef FN
#define FN(x) conv_gemm1x1_##x
#endif
#include "gemm_tile.clh"

/* Channels c.. of the group's filters and of this work-item's pixel. */
void FN(fetch)(float *wr, float *xr, SRC w, SRC x, bool present, int c, int channels, long plane)
{
#pragma unroll
    for (int i = 0; i < BM * BK / WG; i++)
        wr[i] = c + (LANE + i * WG) / BM < channels ? w[(long)c * BM + LANE + i * WG] : 0.0f;
#pragma unroll
    for (int i = 0; i < BN * BK / WG; i++) {
        const int row = c + LANE / BN + i * (WG / BN);
        xr[i] = present && row < channels ? x[row * plane] : 0.0f;
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a, local float4 *scratch)
{
    const long map = (long)a->out[1] * a->out[2], plane = (long)a->in[1] * a->in[2];
    const long pixels = map * a->n;
    const long tiles = (pixels + BN - 1) / BN;
    const int block = (int)(group / tiles);
    const long first = (long)(group % tiles) * BN;
    local float *as = (local float *)scratch, *bs = as + BK * AS;

    const long p = min(first + LANE % BN, pixels - 1); /* the pixel that this work-item brings */
    const int at = (int)(p % map);
    SRC xp = x + p / map * a->src_n + (long)(at / a->out[2] * a->stride[1]) * a->in[2] + at % a->out[2] * a->stride[2];
    SRC wp = w + (long)block * a->c * BM;
    const bool present = first + LANE % BN < pixels;

    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float wr[BM * BK / WG], xr[BN * BK / WG];
    FN(fetch)(wr, xr, wp, xp, present, 0, a->c, plane);
    for (int c = 0; c < a->c; c += BK) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < BM * BK / WG; i++)
            as[(LANE + i * WG) / BM * AS + (LANE + i * WG) % BM] = wr[i];
#pragma unroll
        for (int i = 0; i < BN * BK / WG; i++)
            bs[(LANE / BN + i * (WG / BN)) * BS + LANE % BN] = xr[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (c + BK < a->c)
            FN(fetch)(wr, xr, wp, xp, present, c + BK, a->c, plane);
        FN(tile_multiply)(as, bs, acc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

#pragma unroll
    for (int j = 0; j < RN4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const long q = first + TILE_COLUMN(j) + e;
            const long n = q / map, inner = q % map;
#pragma unroll
            for (int i = 0; i < RM; i++) {
                const int k = block * BM + TILE_ROW(i);
                float v[4];
                vstore4(acc[i][j], 0, v);
                if (q < pixels && k < a->k)
                    y[n * a->dst_n + k * map + inner] =
                        EPILOGUE(v[e], bias, k, add, n * a->add_n + k * map + inner, a);
            }
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    local float4 scratch[TILE_SCRATCH];
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
