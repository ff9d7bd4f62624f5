/* conv_winograd_gemm.cl: the transforms around the matrix products of Winograd's minimal filtering F(4x4, 3x3) on
 * row-major maps, for GPUs; the products are those of a 1x1 convolution with a group for each of the 36 points.
 *
 *   in    v[point][c][t] = (B^T x[c] B)[point]               for the 6 x 6 patch of x under tile t, zeros outside of x
 *   out   y[k] = act( A^T m[point][k] A + bias[k] + add )    for the 4 x 4 pixels of tile t, or with POOLED their
 *         2 x 2 windows, of which y has those inside the map
 *
 * (Lavin and Gray 2016; the matrices are in winograd.clh.) Tiles are numbered over images, rows and columns; a step
 * treats `tiles` of them from first_tile on. Rows of v and m have `pitch` >= tiles elements; v is zero past the tiles.
 * Layouts: x, y, add NCHW with batch strides; v dense [36][C][pitch], m dense [36][K][pitch].
 * Index map: item = channel (filter) * pitch + tile.
 * Work-group: WG items. Local memory: none. Defines: WG (any), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh; of `out`),
 * X_HALF (of `in`), ADD_HALF, Y_HALF (maps.clh; of `out`), POOLED 0 or 1 and AVG (conv_pool.clh; of `out`). */
#include "common/clcnn.clh"
#include "conv/conv_tile_args.h"
#include "common/epilogue.clh"
#include "common/maps.clh"
#include "fused/conv_pool.clh"
#ifndef POOLED
#define POOLED 0
#endif
#ifndef FN
#define FN(x) conv_winograd_gemm_##x
#endif
#undef FV
#undef M
#undef R
#define FV float
#define M 4
#define R 3
#include "conv/winograd.clh"

/* Where a tile lies: its image, and its first output pixel. */
struct FN(spot) {
    int n, row, column;
};

struct FN(spot) FN(spot_of)(int t, const struct conv_winograd_gemm_args *a)
{
    const int tile = a->first_tile + t, per_image = a->tiles_high * a->tiles_wide;
    const int n = tile / per_image, in_image = tile - n * per_image, high = in_image / a->tiles_wide;
    return (struct FN(spot)){n, high * M, (in_image - high * a->tiles_wide) * M};
}

/* d = the patch at x, which is the corner of a channel's map. */
void FN(load)(float d[A][A], X_SRC x, const struct FN(spot) *at, const struct conv_winograd_gemm_args *a)
{
    const int top = at->row - a->pad[0], left = at->column - a->pad[1];
#pragma unroll
    for (int r = 0; r < A; r++) {
        const int h = top + r;
        const bool row = h >= 0 && h < a->in[0];
        X_SRC from = x + (long)h * a->in[1] + left;
#pragma unroll
        for (int c = 0; c < A; c++)
            d[r][c] = row && left + c >= 0 && left + c < a->in[1] ? LOAD_X(from, c) : 0.0f;
    }
}

void FN(in_body)(ulong group, X_SRC x, DST v, const struct conv_winograd_gemm_args *a)
{
    const long item = (long)group * WG + LANE, all = (long)a->c * a->pitch;
    const int c = (int)(item / a->pitch), t = (int)(item - (long)c * a->pitch);
    if (item < all) {
        float d[A][A];
        if (t < a->tiles) {
            const struct FN(spot) at = FN(spot_of)(t, a);
            FN(load)(d, x + at.n * a->src_n + (long)c * a->in[0] * a->in[1], &at, a);
        } else {
#pragma unroll
            for (int i = 0; i < A * A; i++)
                d[i / A][i % A] = 0.0f;
        }
        float e[A][A];
#pragma unroll
        for (int i = 0; i < A; i++) {
#define IN(j) d[j][i]
#define OUT(j) e[j][i]
            B_T(OUT, IN);
#undef IN
#undef OUT
        }
#pragma unroll
        for (int i = 0; i < A; i++) {
            float out[A];
#define IN(j) e[i][j]
#define OUT(j) out[j]
            B_T(OUT, IN);
#undef IN
#undef OUT
#pragma unroll
            for (int j = 0; j < A; j++)
                v[(i * A + j) * all + item] = out[j];
        }
    }
}

/* A row of a tile: `count` pixels of filter k at y and add. */
void FN(store)(const float row[M], int count, bool wide, int k, SRC bias, ADD_SRC add, Y_DST y,
               const struct conv_winograd_gemm_args *a)
{
    if (wide) {
        float other[M];
#if EPI_ADD
        vstore4(LOAD_ADD4(add), 0, other);
#endif
        const float4 four = (float4)(EPILOGUE(row[0], bias, k, other, 0, a), EPILOGUE(row[1], bias, k, other, 1, a),
                                     EPILOGUE(row[2], bias, k, other, 2, a), EPILOGUE(row[3], bias, k, other, 3, a));
        STORE_Y4(four, y);
    } else {
#pragma unroll
        for (int i = 0; i < M; i++)
            if (i < count)
                STORE_Y(EPILOGUE_OF(row[i], bias, k, LOAD_ADD(add, i), a), y, i);
    }
}

#if POOLED
/* Two windows of rows `above` and `row` of a tile, both with the epilogue behind them, `count` of which y has. */
void FN(store_windows)(const float above[M], const float row[M], int count, Y_DST y)
{
#pragma unroll
    for (int i = 0; i < M / 2; i++)
        if (i < count)
            STORE_Y(POOL_END(
                        POOL(POOL(POOL(POOL(POOL_START, above[2 * i]), above[2 * i + 1]), row[2 * i]), row[2 * i + 1])),
                    y, i);
}
#endif

void FN(out_body)(ulong group, SRC m, SRC bias, ADD_SRC add, Y_DST y, const struct conv_winograd_gemm_args *a)
{
    const long item = (long)group * WG + LANE, all = (long)a->k * a->pitch;
    const int k = (int)(item / a->pitch), t = (int)(item - (long)k * a->pitch);
    if (item < all && t < a->tiles) {
        float half_way[M][A];
#pragma unroll
        for (int i = 0; i < A; i++) {
            float column[A];
#pragma unroll
            for (int j = 0; j < A; j++)
                column[j] = m[(j * A + i) * all + item];
#define IN(j) column[j]
#define OUT(j) half_way[j][i]
            A_T(OUT, IN);
#undef IN
#undef OUT
        }
        const struct FN(spot) at = FN(spot_of)(t, a);
        const long p = ((long)k * a->out[0] + at.row) * a->out[1] + at.column;
#if POOLED
        const int high = a->out[0] / 2, wide = a->out[1] / 2;
        float above[M];
#pragma unroll
        for (int r = 0; r < M; r++) {
            float row[M];
#define IN(j) half_way[r][j]
#define OUT(j) row[j]
            A_T(OUT, IN);
#undef IN
#undef OUT
            if (at.row + r < 2 * high) {
#pragma unroll
                for (int i = 0; i < M; i++)
                    if (at.column + i < 2 * wide)
                        row[i] = EPILOGUE_OF(row[i], bias, k,
                                             LOAD_ADD(add, at.n * a->add_n + p + (long)r * a->out[1] + i), a);
                if (r % 2 == 1)
                    FN(store_windows)(above, row, wide - at.column / 2,
                                      y + at.n * a->dst_n + ((long)k * high + (at.row + r) / 2) * wide + at.column / 2);
            }
#pragma unroll
            for (int i = 0; i < M; i++)
                above[i] = row[i];
        }
#else
        const ulong apart = (ulong)a->out[1] | a->dst_n | (EPI_ADD ? a->add_n | (ulong)add / ADD_BYTES : 0);
        const bool wide = apart % 4 == 0 && (ulong)y / Y_BYTES % 4 == 0; /* whole rows, on boundaries of four */
#pragma unroll
        for (int r = 0; r < M; r++) {
            float row[M];
#define IN(j) half_way[r][j]
#define OUT(j) row[j]
            A_T(OUT, IN);
#undef IN
#undef OUT
            if (at.row + r < a->out[0])
                FN(store)(row, a->out[1] - at.column, wide, k, bias, add + at.n * a->add_n + p + (long)r * a->out[1],
                          y + at.n * a->dst_n + p + (long)r * a->out[1], a);
        }
#endif
    }
}

KERNEL FN(in)(X_SRC x, ulong x_off, DST v, ulong v_off, const struct conv_winograd_gemm_args a)
{
    FN(in_body)(GROUP, x + x_off, v + v_off, &a);
}

KERNEL FN(out)(SRC m, ulong m_off, SRC bias, ulong bias_off, ADD_SRC add, ulong add_off, Y_DST y, ulong y_off,
               const struct conv_winograd_gemm_args a)
{
    FN(out_body)(GROUP, m + m_off, bias + bias_off, add + add_off, y + y_off, &a);
}
