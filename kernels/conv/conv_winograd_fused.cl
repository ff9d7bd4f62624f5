/* conv_winograd_fused.cl: 3x3 convolution at stride 1 by Winograd's minimal filtering F(2x2, 3x3) in one kernel: what
 * is transformed never leaves local memory and registers.
 *
 *   y[k] = act( A^T [ sum_c u[c][k] . (B^T x[c] B) ] A + bias[k] + add )      for tiles of 2 x 2 pixels of y
 *
 * (Lavin and Gray 2016; the matrices are in winograd.clh.) The dot multiplies point by point, so each of the 16 points
 * is a product of matrices, of filters by channels and channels by tiles: 16 multiply-adds for 4 results instead of 36.
 * Tiles are numbered over images, rows and columns; x is zero outside of the image.
 * Layouts: x, y, add NCHW with batch strides; u = G w G^T packed by conv_pack.cl with POINTS 16:
 * [groups][ceil(K/groups / BF)][chunks][16][BC][BF], zeros where filters or channels are missing. A chunk is BC
 * channels, 8, or 6 with BF 64. With SPLIT 1 group `split` adds up chunks split*share.. and y is
 * partial[split][K][N*P*Q] for conv_sum_parts.cl.
 * Index map: group = (split * blocks of filters + block) * ceil(tiles / 32) + block of 32 tiles.
 * Work-group: WG, 16 work-items a point; each has BF/4 filters by 8 tiles of it in registers, loads filters of its
 * point, and one tile of one channel of the chunk, which it transforms. The next chunk comes to registers while one is
 * multiplied.
 * Local memory: a chunk, u[16][BC][BF] and v[16][BC][32]; then the results of 16 filters, [16][16][32], since what a
 * result is made of lies in 16 work-items: 32 KiB, with BF 64 36 KiB. In every other row of those that are read
 * together the halves of 32 columns change places, so that they come from all banks.
 * Defines: WG 256, BF 32 (default) or 64, SPLIT 0 or 1, EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) conv_winograd_fused_##x
#endif
#ifndef BF
#define BF 32
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#if WG != 256
#error "a group needs WG 256: 16 work-items a point"
#endif
#undef FV
#undef M
#undef R
#define FV float
#define M 2
#define R 3
#include "conv/winograd.clh"
#undef BC
#undef BT
#undef U_ROW
#undef V_ROW
#undef U_LOADS
#undef FUSED_SCRATCH
#define BC (BF == 64 ? 6 : 8) /* as many as 48 KiB of local memory hold, of which NVIDIA's driver takes a little */
#define BT 32                 /* tiles of a group */
#define U_ROW (BC * BF)       /* floats of a point */
#define V_ROW (BC * BT)
#define U_LOADS (U_ROW / 4 / 16) /* float4 of u that a work-item loads */
#define FUSED_SCRATCH (4 * (U_ROW + V_ROW) > 4 * 16 * BT ? 4 * (U_ROW + V_ROW) : 4 * 16 * BT) /* in float4 */

/* This work-item's tile: its first output pixel in y and add, and the patch of x under it in the channel read next. */
struct FN(tile) {
    int n, row, column;
    const global float *x;
    uint inside; /* a bit for each element of the patch, in the order of rows */
    int c;
};

struct FN(tile) FN(tile_of)(SRC x, int t, int g, int c, const struct conv_winograd_fused_args *fa)
{
    const struct conv_args *a = &fa->conv;
    const int per_image = fa->tiles_high * fa->tiles_wide, in_image = t % per_image;
    struct FN(tile) p;
    p.n = t / per_image;
    p.row = in_image / fa->tiles_wide * M;
    p.column = in_image % fa->tiles_wide * M;
    p.c = c;
    const int top = p.row - a->pad[1], left = p.column - a->pad[2];
    p.x = x + p.n * a->src_n + ((long)(g * (a->c / a->groups) + c) * a->in[1] + top) * a->in[2] + left;
    p.inside = 0;
    for (int i = 0; i < A * A; i++) {
        const int h = top + i / A, w = left + i % A;
        if (t < fa->tiles && h >= 0 && h < a->in[1] && w >= 0 && w < a->in[2])
            p.inside |= 1u << i;
    }
    return p;
}

/* d = the patch; the next one is BC channels further. */
void FN(fetch_patch)(float d[A * A], struct FN(tile) *p, const struct conv_args *a)
{
    const uint inside = LANE < V_ROW && p->c < a->c / a->groups ? p->inside : 0;
#pragma unroll
    for (int i = 0; i < A * A; i++)
        d[i] = inside >> i & 1 ? p->x[(long)(i / A) * a->in[2] + i % A] : 0.0f;
    p->c += BC;
    p->x += (long)BC * a->in[1] * a->in[2];
}

void FN(fetch_filters)(float4 f[U_LOADS], SRC u)
{
#pragma unroll
    for (int i = 0; i < U_LOADS; i++)
        f[i] = *(const global float4 *)(u + LANE / 16 * U_ROW + (LANE % 16 + i * 16) * 4);
}

/* What was loaded goes to local memory, the patch transformed. */
void FN(store_local)(local float *u, local float *v, const float d[A * A], const float4 f[U_LOADS])
{
    const int point = LANE / 16;
    float e[A][A];
#pragma unroll
    for (int i = 0; i < U_LOADS; i++)
        *(local float4 *)(u + point * U_ROW + ((LANE % 16 ^ (point % 2 * 4)) + i * 16) * 4) = f[i];
#pragma unroll
    for (int i = 0; i < A; i++) {
#define IN(j) d[(j)*A + i]
#define OUT(j) e[j][i]
        B_T(OUT, IN);
#undef IN
#undef OUT
    }
#pragma unroll
    for (int i = 0; i < A; i++) {
        float row[A];
#define IN(j) e[i][j]
#define OUT(j) row[j]
        B_T(OUT, IN);
#undef IN
#undef OUT
#pragma unroll
        for (int j = 0; j < A; j++)
            if (LANE < V_ROW)
                v[(i * A + j) * V_ROW + (LANE ^ (j % 2 * 16))] = row[j];
    }
}

/* The chunk's products of this work-item's point, added to acc. */
void FN(multiply)(const local float *u, const local float *v, float4 acc[BF / 4][2])
{
    const int point = LANE / 16, own = LANE % 16, odd = point % 2 * 16;
    u += point * U_ROW + own / 4 * 4;
    v += point * V_ROW + own % 4 * 4;
#pragma unroll 2 /* unrolled further, the loop took a fifth more time on an H200 */
    for (int c = 0; c < BC; c++) {
        float f[BF / 4];
        float4 t[2];
#pragma unroll
        for (int q = 0; q < BF / 16; q++)
            vstore4(*(const local float4 *)(u + c * BF + q / 2 * 32 + (q % 2 ? 16 - odd : odd)), q, f);
        t[0] = *(const local float4 *)(v + c * BT + odd);
        t[1] = *(const local float4 *)(v + c * BT + 16 - odd);
#pragma unroll
        for (int i = 0; i < BF / 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                acc[i][j] = fma((float4)f[i], t[j], acc[i][j]);
    }
}

/* The pixels of one filter and tile from its points in m, at y and add; columns beyond 1 are outside of the image. */
void FN(pixels)(const local float *m, int k, int rows, int columns, bool wide, SRC bias, SRC add, DST y,
                const struct conv_args *a)
{
    float half_way[M][A];
#pragma unroll
    for (int i = 0; i < A; i++) {
#define IN(j) m[((j)*A + i) * (16 * BT)]
#define OUT(j) half_way[j][i]
        A_T(OUT, IN);
#undef IN
#undef OUT
    }
#pragma unroll
    for (int r = 0; r < M; r++) {
        float row[M];
#define IN(j) half_way[r][j]
#define OUT(j) row[j]
        A_T(OUT, IN);
#undef IN
#undef OUT
        const long at = (long)r * a->out[2];
        if (r < rows && wide) {
            float other[M];
#if EPI_ADD
            vstore2(*(const global float2 *)(add + at), 0, other);
#endif
            *(global float2 *)(y + at) =
                (float2)(EPILOGUE(row[0], bias, k, other, 0, a), EPILOGUE(row[1], bias, k, other, 1, a));
        } else if (r < rows) {
#pragma unroll
            for (int i = 0; i < M; i++)
                if (i < columns)
                    y[at + i] = EPILOGUE(row[i], bias, k, add, at + i, a);
        }
    }
}

/* All results of the group, 16 filters after 16: filters k0 .. k_end - 1 of the tile at p. In y images are `image` and
 * filters `filter` elements apart. */
void FN(store)(local float *m, float4 acc[BF / 4][2], const struct FN(tile) *p, bool present, int k0, int k_end,
               long image, long filter, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const int point = LANE / 16, own = LANE % 16 / 4 * 4, tile = LANE % 4 * 4;
    const ulong apart = (ulong)a->out[2] | (ulong)filter | (ulong)image | (EPI_ADD ? a->add_n | (ulong)add / 4 : 0);
    const bool wide = apart % 2 == 0 && (ulong)y % 8 == 0; /* whole rows, on boundaries of 8 bytes */
    const long at = (long)p->row * a->out[2] + p->column;
    const int rows = a->out[1] - p->row, columns = a->out[2] - p->column;
#pragma unroll
    for (int q = 0; q < BF / 16; q++) {
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                *(local float4 *)(m + (point * 16 + own + r) * BT + ((j * 16 + tile) ^ (own / 4 % 2 * 16))) =
                    acc[q * 4 + r][j];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < 16 * BT / WG; i++) {
            const int f = LANE / BT + i * (WG / BT), k = k0 + q * 16 + f;
            if (present && k < k_end)
                FN(pixels)(m + f * BT + (LANE % BT ^ (f / 4 % 2 * 16)), k, rows, columns, wide, bias,
                           add + p->n * a->add_n + k * filter + at, y + p->n * image + k * filter + at, a);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

void FN(body)(ulong group, SRC x, SRC u, SRC bias, SRC add, DST y, const struct conv_winograd_fused_args *fa,
              local float4 *scratch)
{
    const struct conv_args *a = &fa->conv;
    const int cg = a->c / a->groups, kg = a->k / a->groups, blocks = (kg + BF - 1) / BF, all = blocks * a->groups;
    const int tile_blocks = (fa->tiles + BT - 1) / BT, rest = (int)(group / tile_blocks);
    const int block = rest % all, split = rest / all, g = block / blocks;
    const int t = (int)(group % tile_blocks) * BT + LANE % BT;
    const int chunks = (cg + BC - 1) / BC, from = SPLIT ? split * fa->share : 0;
    const int to = SPLIT ? min(from + fa->share, chunks) : chunks;
    const long map = (long)a->out[1] * a->out[2];
    local float *us = (local float *)scratch, *vs = us + 16 * U_ROW;

    struct FN(tile) p = FN(tile_of)(x, t, g, from * BC + LANE / BT, fa);
    SRC up = u + ((long)block * chunks + from) * (16 * U_ROW);
    float4 acc[BF / 4][2], f[U_LOADS];
    float d[A * A];
#pragma unroll
    for (int i = 0; i < BF / 4; i++)
        acc[i][0] = acc[i][1] = 0.0f;
    FN(fetch_filters)(f, up);
    FN(fetch_patch)(d, &p, a);
    for (int chunk = from; chunk < to; chunk++) {
        FN(store_local)(us, vs, d, f);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (chunk + 1 < to) {
            up += 16 * U_ROW;
            FN(fetch_filters)(f, up);
            FN(fetch_patch)(d, &p, a);
        }
        FN(multiply)(us, vs, acc);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    FN(store)(us, acc, &p, t < fa->tiles, g * kg + block % blocks * BF, (g + 1) * kg, SPLIT ? map : a->dst_n,
              SPLIT ? map * a->n : map, bias, add, SPLIT ? y + split * a->k * map * a->n : y, a);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC u, ulong u_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_winograd_fused_args a)
{
    local float4 scratch[FUSED_SCRATCH];
    FN(body)(GROUP, x + x_off, u + u_off, bias + bias_off, add + add_off, y + y_off, &a, scratch);
}
