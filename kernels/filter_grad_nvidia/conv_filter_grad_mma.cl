/* conv_filter_grad_mma.cl: the gradient of a convolution's filters on NVIDIA's tensor cores: an implicit matrix product
 * of dy and the windows of x, both of which lie along the depth, the pixels of all images.
 *
 *   dw[k][c][t] = sum over n, o of dy[n][k][o] * x[n][g*C/g + c][o*stride - pad + t*dil]; g is the group of k
 *
 * A row of a tile is a filter of a conv group, a column a position (c, t) of its windows. PRODUCTS 3 multiplies float32
 * as sums of two tf32 values and adds up 8 of depth at a time in float32; PRODUCTS 1 rounds operands to tf32. Of a
 * split depth, group `split` computes chunks split*share.., and y is partial[split][K][C/groups*taps] for
 * conv_sum_parts.cl. A sum that is no finite number is computed again by its definition.
 * Layouts: x, dy NCHW with batch strides; dw [K][C/groups][H][W].
 * Index map: group = (((split * conv groups + g) * tiles of rows) + tile) * tiles of columns + tile.
 * DY_WIDE, X_WIDE: pixels come in fours along the depth (maps of a multiple of four pixels; of x also 1x1 windows at
 * stride 1), else one by one.
 * Work-group: WG. Local memory: STAGES chunks of BK of depth of both operands, and where the columns lie, 47 KiB at
 * most.
 * Defines: WG 128 or 256, BM, BN (multiples of 32), WM (warps along rows), BK 16 or 32, DY_WIDE, X_WIDE 0 or 1,
 * PRODUCTS 1 or 3; all required. */
#include "common/clcnn.clh"
#include "filter_grad_nvidia/filter_grad_nvidia_args.h"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) conv_filter_grad_mma_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#define A_DEEP 1
#define B_DEEP 1
#include "conv_nvidia/mma_tile.clh"
#define STAGE ((BM + BN) * BK)
#define FITTING (12032 / STAGE)
#define STAGES (FITTING > 4 ? 4 : FITTING)

#define LOADER LANE
#define LOADERS WG
#define SIDE_AT(side, d) PLACE(true, 0, side, d)
#define COLUMN_AT(apart) ((apart)*BK) /* steps are exchanged alike four sides further */
#define POSITIONS BN
#define FILTERS BM
#include "filter_grad_nvidia/filter_grad.clh"
#include "filter_grad_nvidia/filter_grad_windows.clh"

/* The next chunk of both operands; the walks go on. */
void FN(load)(uint to, struct FN(walk) *wy, struct FN(walk) *wx, const int2 at[COLUMNS], const struct FN(tile) *t,
              const struct filter_grad_mma_args *f)
{
    const struct conv_args *a = &f->conv;
    const long plane = (long)a->in[1] * a->in[2];
    const global float *dy = t->dy + t->row * (long)f->map;
    const int rows = t->rows;
#if DY_WIDE
    FN(load_fours)(to, dy, a->dst_n, f->map, rows, BM, wy);
#else
    FN(load_ones)(to, dy, a->dst_n, f->map, rows, BM, wy);
#endif
#if X_WIDE
    FN(load_fours)(to + BM * BK * 4, t->x + t->col * plane, a->src_n, plane, t->columns, BN, wx);
#else
    FN(load_windows)(to + BM * BK * 4, t->x, at, wx, a);
#endif
    FN(go_on)(wy, f);
    FN(go_on)(wx, f);
}

/* Results of a work-item; y: of the tile's first row and column, which has `rows` and `columns` from there on. */
void FN(store)(const float sum[SUMS], DST y, long apart, int rows, int columns, const struct FN(tile) *t,
               const struct filter_grad_mma_args *f)
{
    const int row = MMA_ROW, column = MMA_FIRST_COLUMN + LANE % 4 * 2;
    const bool pairs = ((ulong)y & 7) == 0 && apart % 2 == 0;
#pragma unroll
    for (int i = 0; i < SUMS; i += 2) {
        const int r = SUM_ROW(i, row), c = SUM_COLUMN(i, column);
        DST to = y + r * apart + c;
        if (r < rows && c + 1 < columns && pairs) {
            *(global float2 *)to = (float2)(sum[i], sum[i + 1]);
        } else if (r < rows) {
            if (c < columns)
                to[0] = sum[i];
            if (c + 1 < columns)
                to[1] = sum[i + 1];
        }
    }
    const ulong lost = FN(lost)(sum);
    if (lost)
#pragma unroll 1
        for (int i = 0; i < SUMS; i++) {
            const int r = SUM_ROW(i, row), c = SUM_COLUMN(i, column);
            if ((lost >> i & 1) && r < rows && c < columns)
                y[r * apart + c] = FN(define)(r, c, t, f);
        }
}

void FN(body)(ulong group, SRC x, SRC dy, DST y, const struct filter_grad_mma_args *f, local float4 *scratch)
{
    const struct FN(tile) t = FN(tile_of)(group, x, dy, f);
    local float *stages = (local float *)scratch;
    int2 at[COLUMNS];
    const uint to = LOCAL_ADDRESS(stages);
    const long from = (long)t.chunk * BK;
    struct FN(walk) wy = FN(walk_of)(from + (DY_WIDE ? LANE % (BK / 4) * 4 : LANE % BK), f);
    struct FN(walk) wx = FN(walk_of)(from + (X_WIDE ? LANE % (BK / 4) * 4 : LANE % BK), f);
    float sum[MI][NJ][4];
    FN(clear)(sum);
    FN(find_columns)(at, &t, &f->conv);

    int next = t.chunk; /* of the next batch of copies */
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (next < t.end) {
            FN(load)(to + i * STAGE * 4, &wy, &wx, at, &t, f);
            next++;
        }
        COPIES_CLOSE;
    }
    int fill = STAGES - 1, slot = 0;
    for (int chunk = t.chunk; chunk < t.end; chunk++) {
        COPIES_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < t.end) {
            FN(load)(to + fill * STAGE * 4, &wy, &wx, at, &t, f);
            next++;
        }
        COPIES_CLOSE;
        fill = fill + 1 == STAGES ? 0 : fill + 1;
        const local float *as = stages + slot * STAGE;
        FN(multiply)(sum, as, as + BM * BK, MMA_ROW, MMA_COLUMN);
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }

    FN(store)(&sum[0][0][0], FN(results_of)(y, &t, f), f->apart, t.rows, t.columns, &t, f);
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC x, ulong x_off, SRC dy, ulong dy_off, DST y, ulong y_off, const struct filter_grad_mma_args f)
{
    local float4 scratch[STAGES * STAGE / 4];
    FN(body)(GROUP, x + x_off, dy + dy_off, y + y_off, &f, scratch);
}
#endif
