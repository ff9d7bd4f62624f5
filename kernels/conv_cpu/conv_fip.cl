/* conv_fip.cl: 1x1 convolution of maps with channels in blocks, and linear layers, by the fast inner product, for CPU
 * devices.
 *
 *   y[n][k][oh][ow] = act( sum_c w[k][c] x[n][c][oh*sh][ow*sw] + bias[k] + add[n][k][oh][ow] )
 *
 * Layouts: x, y, add [ceil(C/V)][H][W][V] with batch strides, or rows of C and K elements, which are the pixels of an
 * image then; w [K][C], w_k elements between filters; u, the filters
 * scaled and with their sums, as fip.clh tells, with zeros past the last channel and filter. Lanes of a block of y past
 * K are written as zeros.
 *   levels, gains  of filters and channels (scales.clh). Group = block of V.
 *   pack  u. Group = block of KV * V filters.
 *   main  y. Products of a tile with a block of filters are numbered; a group has the group-th part of them and scales
 *         their tiles.
 * Work-group: WG = 1. Local memory: main: tiles, FIP_HELD floats.
 * Defines: V channels of a block, 16 or 8; T, KV, ROWS (fip.clh), FIP_HELD; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/fip_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_fip_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#ifndef T
#define T 7
#endif
#ifndef KV
#define KV 2
#endif
#ifndef FIP_HELD
#define FIP_HELD 4096
#endif
#include "conv_cpu/fip.clh"
#define SCRATCH (FIP_HELD / 4)

/* Copies a tile of an image and scales it; zeros past its last pixel. The second time its channels are read they are
 * near. */
void FN(load)(int tile, SRC image, SRC gains, local float *mid, const struct conv_fip_args *b)
{
    const struct fip_shape *a = &b->shape;
    const int row = FN(tile_row)(tile, a), col = FN(tile_column)(tile, a), count = FN(tile_count)(tile, a);
    const long map = (long)b->in[0] * b->in[1] * V, next = (long)b->stride[1] * V;
    image += ((long)row * b->stride[0] * b->in[1] + col * b->stride[1]) * V;
    FV magnitudes = 0.0f;
    for (int block = 0; block < a->c_blocks; block++) {
        SRC x = image + block * map;
        FV sum = 0.0f;
#pragma unroll
        for (int t = 0; t < T; t++) {
            PREFETCH(x + (T + t) * next); /* of the next tile */
            if (t < count)
                sum += fabs(LOADV(x, t * next));
        }
        magnitudes = fma(sum, fabs(LOADV(gains, block * V)), magnitudes);
    }
    const float scale = FN(scale_of)(mid, magnitudes, a);
    FV sums[T];
#pragma unroll
    for (int t = 0; t < T; t++)
        sums[t] = 0.0f;
    for (int block = 0; block < a->c_blocks; block++) {
        SRC x = image + block * map;
        const FV by = LOADV(gains, block * V) * scale;
#pragma unroll
        for (int t = 0; t < T; t++) {
            const FV scaled = t < count ? LOADV(x, t * next) * by : (FV)0.0f;
            SHAREV(scaled, mid, (block * T + t) * V);
            PAIRS_OF(scaled, sums[t]);
        }
    }
    FN(heads)(mid, sums, a);
}

/* The same of rows, each of which has a scale of its own: none hangs on what lies beside it. */
void FN(load_rows)(int tile, SRC image, SRC gains, local float *mid, const struct conv_fip_args *b)
{
    const struct fip_shape *a = &b->shape;
    const int count = FN(tile_count)(tile, a);
    local float *head = mid + (long)a->c_blocks * (T * V);
    SRC rows = image + FN(tile_column)(tile, a) * b->row;
    FV sums[T];
    float scale[T];
    for (int t = 0; t < T; t++) {
        FV magnitudes = 0.0f;
        for (int block = 0; block < a->c_blocks && t < count; block++)
            magnitudes = fma(fabs(FN(channels)(rows, t * b->row + block * V, b->c - block * V)),
                             fabs(LOADV(gains, block * V)), magnitudes);
        const float mean = FN(total)(magnitudes) / (a->c_blocks * V);
        head[V - T + t] = FN(back)(mean);
        scale[t] = FN(power)(-FN(exponent)(mean));
        sums[t] = 0.0f;
    }
    for (int block = 0; block < a->c_blocks; block++) {
        const FV by = LOADV(gains, block * V);
#pragma unroll
        for (int t = 0; t < T; t++) {
            const long at = t * b->row + block * V;
            const FV scaled = t < count ? FN(channels)(rows, at, b->c - block * V) * by * scale[t] : (FV)0.0f;
            SHAREV(scaled, mid, (block * T + t) * V);
            PAIRS_OF(scaled, sums[t]);
        }
    }
    FN(heads)(mid, sums, a);
}

void FN(levels_body)(ulong group, SRC w, DST levels, const struct conv_fip_args *a)
{
    FN(levels_block)((int)group, w, a->w_k, a->c, a->shape.k, levels);
}

void FN(gains_body)(ulong group, SRC w, SRC levels, DST gains, const struct conv_fip_args *a)
{
    FN(gains_block)((int)group, w, a->w_k, a->c, levels, gains, &a->shape);
}

void FN(pack_body)(ulong group, SRC w, SRC levels, SRC gains, DST u, const struct conv_fip_args *a)
{
    FN(pack_block)((int)group, w, a->w_k, a->c, levels, gains, u, &a->shape);
}

void FN(body)(ulong group, SRC x, SRC gains, SRC u, SRC bias, SRC add, DST y, const struct conv_fip_args *b,
              local float4 *scratch)
{
    const struct fip_shape *a = &b->shape;
    const struct FN(part) part = FN(part_of)(group, a);
    const long size = FN(tile_floats)(a);
    local float *tiles = (local float *)scratch;
    for (int tile = part.first; tile < part.past; tile++)
        if (ROWS)
            FN(load_rows)(tile, x + tile / a->tiles * b->src_n, gains, tiles + (tile - part.first) * size, b);
        else
            FN(load)(tile, x + tile / a->tiles * b->src_n, gains, tiles + (tile - part.first) * size, b);
    FN(products)(&part, tiles, u, bias, add, y, a);
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(levels)(SRC w, ulong w_off, DST levels, ulong levels_off, const struct conv_fip_args a)
{
    FN(levels_body)(GROUP, w + w_off, levels + levels_off, &a);
}

KERNEL FN(gains)(SRC w, ulong w_off, SRC levels, ulong levels_off, DST gains, ulong gains_off,
                 const struct conv_fip_args a)
{
    FN(gains_body)(GROUP, w + w_off, levels + levels_off, gains + gains_off, &a);
}

KERNEL FN(pack)(SRC w, ulong w_off, SRC levels, ulong levels_off, SRC gains, ulong gains_off, DST u, ulong u_off,
                const struct conv_fip_args a)
{
    FN(pack_body)(GROUP, w + w_off, levels + levels_off, gains + gains_off, u + u_off, &a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC gains, ulong gains_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add,
                ulong add_off, DST y, ulong y_off, const struct conv_fip_args a)
{
    local float4 scratch[SCRATCH];
    FN(body)(GROUP, x + x_off, gains + gains_off, u + u_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
