/* gemm_tiled.cl: matrix products of any strides through tiles in local memory (gemm_operands.clh,
 * gemm_tile.clh).
 *
 * Layouts: any strides of a and b (neighbouring work-items read along the dense one); c has strides too (0:
 * broadcast); y rows y_m apart, dense along n.
 * Index map: group = ((split * batch items + batch item) * ceil(M/BM) + rows) * ceil(N/BN) + columns. With SPLIT 1
 * group `split` computes chunks split*share.. of the depth, and y is partial[split][item][M][N] for gemm_sum_parts.cl.
 * Work-group: 256, or 64 where BM is 32. Local memory: one tile of each operand, TILE_SCRATCH float4; the next tile
 * waits in registers meanwhile.
 * Defines: WG, BM, BN 32, 64 or 128 (gemm_tile.clh), SPLIT 0 (default) or 1, EPI_BIAS (there is a c), EPI_ADD, EPI_ACT
 * (epilogue.clh). */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) gemm_tiled_##x
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#include "matmul/gemm_tile.clh"
#include "matmul/gemm_operands.clh"

/* Element i of a tile of `width` x BK that this work-item loads: the position along the tile's side and
 * along k. */
#define SIDE(i, width, k_dense) ((k_dense) ? (LANE + (i)*WG) / BK : (LANE + (i)*WG) % (width))
#define DEPTH(i, width, k_dense) ((k_dense) ? (LANE + (i)*WG) % BK : (LANE + (i)*WG) / (width))

/* Part k.. of `rows` rows of a matrix with the given strides. */
void FN(fetch_a)(float *v, SRC m, long side_stride, long k_stride, int rows, int k, int depth)
{
#pragma unroll
    for (int i = 0; i < BM * BK / WG; i++) {
        const int r = SIDE(i, BM, k_stride == 1), d = k + DEPTH(i, BM, k_stride == 1);
        v[i] = r < rows && d < depth ? m[r * side_stride + d * k_stride] : 0.0f;
    }
}

void FN(fetch_b)(float *v, SRC m, long side_stride, long k_stride, int columns, int k, int depth)
{
#pragma unroll
    for (int i = 0; i < BN * BK / WG; i++) {
        const int c = SIDE(i, BN, k_stride == 1), d = k + DEPTH(i, BN, k_stride == 1);
        v[i] = c < columns && d < depth ? m[c * side_stride + d * k_stride] : 0.0f;
    }
}

void FN(body)(ulong group, SRC ma, SRC mb, SRC mc, SRC add, DST y, const struct gemm_tiled_args *p,
              local float4 *scratch)
{
    const struct gemm_args *a = &p->gemm;
    const int across = (a->n + BN - 1) / BN, down = (a->m + BM - 1) / BM;
    const int col0 = (int)(group % across) * BN, row0 = (int)(group / across % down) * BM;
    const long outer = (long)(group / across / down);
#if SPLIT
    const long b = outer % p->items;
    const int first = (int)(outer / p->items) * p->share * BK, end = min(first + p->share * BK, a->k);
#else
    const long b = outer;
    const int first = 0, end = a->k;
#endif
    SRC at = ma + FN(batch_offset)(b, a->a_b, a) + row0 * a->a_m;
    SRC bt = mb + FN(batch_offset)(b, a->b_b, a) + col0 * a->b_n;
    local float *as = (local float *)scratch, *bs = as + BK * AS;

    float4 acc[RM][RN4];
    FN(tile_clear)(acc);
    float ar[BM * BK / WG], br[BN * BK / WG];
    FN(fetch_a)(ar, at, a->a_m, a->a_k, a->m - row0, first, end);
    FN(fetch_b)(br, bt, a->b_n, a->b_k, a->n - col0, first, end);
    for (int k = first; k < end; k += BK) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < BM * BK / WG; i++)
            as[DEPTH(i, BM, a->a_k == 1) * AS + SIDE(i, BM, a->a_k == 1)] = ar[i];
#pragma unroll
        for (int i = 0; i < BN * BK / WG; i++)
            bs[DEPTH(i, BN, a->b_k == 1) * BS + SIDE(i, BN, a->b_k == 1)] = br[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k + BK < end) {
            FN(fetch_a)(ar, at, a->a_m, a->a_k, a->m - row0, k + BK, end);
            FN(fetch_b)(br, bt, a->b_n, a->b_k, a->n - col0, k + BK, end);
        }
        FN(tile_multiply)(as, bs, acc);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

#if SPLIT
    DST yt = y + outer * a->m * a->n;
#else
    DST yt = y + FN(batch_offset)(b, a->y_b, a);
    SRC addt = add + FN(batch_offset)(b, a->add_b, a);
#endif
#pragma unroll
    for (int i = 0; i < RM; i++)
#pragma unroll
        for (int j = 0; j < RN4; j++) {
            const int row = row0 + TILE_ROW(i);
            float v[4];
            vstore4(acc[i][j], 0, v);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int col = col0 + TILE_COLUMN(j) + e;
                if (row < a->m && col < a->n)
#if SPLIT
                    yt[(long)row * a->n + col] = v[e];
#else
                    yt[row * a->y_m + col] = GEMM_RESULT(a->alpha * v[e], mc, addt, row, col, a);
#endif
            }
        }
}

KERNEL FN(main)(SRC ma, ulong a_off, SRC mb, ulong b_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct gemm_tiled_args a)
{
    local float4 scratch[TILE_SCRATCH];
    FN(body)(GROUP, ma + a_off, mb + b_off, mc + c_off, add + add_off, y + y_off, &a, scratch);
}
