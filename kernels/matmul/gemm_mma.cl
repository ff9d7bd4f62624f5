/* gemm_mma.cl: matrix products of any batch on NVIDIA's tensor cores (gemm_operands.clh has the formula), both operands
 * brought to local memory as they lie and cut for tensor cores on the way to registers.
 *
 * PRODUCTS 3 multiplies float32 as sums of two tf32 values (hi*lo + lo*hi + hi*hi) and adds up 8 of depth at a time in
 * float32: the error of a float32 sum. PRODUCTS 1 rounds operands to tf32, PRODUCTS 0 to halves.
 * Layouts: a dense along k (A_DEEP 1: in local memory [BM][BK], with steps of 8 of depth exchanged against bank
 * conflicts) or along m (A_DEEP 0: [BK][BM + 4]); b along k or n likewise (B_DEEP); c of any strides (0: broadcast); y
 * and add with rows y_m and add_m apart, dense along n.
 * Index map: group = ((split * items + item) * tiles of rows + tile) * tiles of columns + tile. A warp (32 work-items)
 * computes BM/WM rows by BN/(WARPS/WM) columns. Work-item l of it has depths 2t and 2t + 1 of each 8, t = l % 4, where
 * the tensor core counts t and t + 4: the same for both operands. With SPLIT 1 group `split` of a tile's `split_k`
 * computes chunks split*share.. of the depth, leaves its sums in partial[tile][split], and the last one to arrive adds
 * up all of them in ascending order.
 * A sum that is no finite number is computed again by its definition, since the split of an infinity is not one.
 * Work-group: WG. Local memory: STAGES chunks of BK of depth of both operands, at most 47 KiB.
 * Defines: WG 128 or 256, BM, BN (multiples of 32), WM (warps along rows), BK 16 or 32, A_DEEP, B_DEEP, SPLIT 0 or 1,
 * PRODUCTS 0, 1 or 3, EPI_BIAS (there is a c), EPI_ADD, EPI_ACT (epilogue.clh); all but the last three required. */
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/epilogue.clh"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) gemm_mma_##x
#endif
#ifndef PRODUCTS
#error "PRODUCTS is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#include "matmul/gemm_operands.clh"
#include "conv_nvidia/mma_tile.clh"
#define STAGE (FLOATS(A_DEEP, BM) + FLOATS(B_DEEP, BN))
#define FITTING (12032 / STAGE)
#define STAGES (FITTING > 4 ? 4 : FITTING)
/* Work-items that load a line of neighbours, and lines that a pass of all has, of LINES. */
#define LINE_ITEMS(deep, size) (((deep) ? BK : (size)) / 4)
#define LINE_STEP(deep, size) (WG / LINE_ITEMS(deep, size))
#define LINES(deep, size) ((deep) ? (size) : BK)

/* What a group computes: rows row.. and columns col.. of an item, chunks chunk.. end-1 of depth. */
struct FN(tile) {
    int row, col, chunk, end;
    const global float *a, *b; /* of the tile's first row and column */
    long item;
};

/* What this work-item loads of an operand: its part of the next chunk, how many lines follow up to the matrix' end, and
 * elements of each. */
struct FN(walk) {
    const global float *from;
    long apart; /* elements between lines */
    int lines, along;
    bool wide;
};

struct FN(walk) FN(walk_of)(SRC m, bool deep, int size, long side_stride, long k_stride, int sides, int k, int depth)
{
    const int line = LANE / LINE_ITEMS(deep, size), ahead = LANE % LINE_ITEMS(deep, size) * 4;
    struct FN(walk) w;
    w.apart = deep ? side_stride : k_stride;
    w.from = m + (deep ? line * side_stride + k + ahead : (k + line) * k_stride + ahead);
    w.lines = (deep ? sides : depth - k) - line;
    w.along = (deep ? depth - k : sides) - ahead;
    w.wide = ((ulong)m & 15) == 0 && w.apart % 4 == 0; /* chunks and passes begin at multiples of four */
    return w;
}

/* The next chunk of an operand is on its way to local address `to`. */
void FN(load)(uint to, struct FN(walk) *w, bool deep, int size)
{
    const int step = LINE_STEP(deep, size), line = LANE / LINE_ITEMS(deep, size);
    const int ahead = LANE % LINE_ITEMS(deep, size) * 4, left = clamp(w->along, 0, 4);
    to += 4 * (uint)(deep ? PLACE(true, size, line, ahead) : PLACE(false, size, ahead, line));
#pragma unroll
    for (int i = 0; i < LINES(deep, size) / step; i++) {
        const int count = i * step < w->lines ? left : 0;
        const uint at = to + (uint)(i * step * (deep ? BK : size + 4)) * 4;
        const global float *from = w->from + i * step * w->apart;
        if (w->wide)
            COPY16(at, from, count * 4);
        else
#pragma unroll
            for (int j = 0; j < 4; j++)
                COPY4(at + j * 4, from + j, j < count ? 4 : 0);
    }
    w->from += deep ? BK : BK * w->apart;
    w->along -= deep ? BK : 0;
    w->lines -= deep ? 0 : BK;
}

/* A sum of the tile by its definition. */
float FN(define)(int row, int column, const struct FN(tile) *t, const struct gemm_args *a)
{
    float sum = 0.0f;
    for (int k = t->chunk * BK; k < min(t->end * BK, a->k); k++)
        sum = fma(t->a[row * a->a_m + k * a->a_k], t->b[k * a->b_k + column * a->b_n], sum);
    return sum;
}

/* What is added to a row's sums of a work-item, times `factor`: columns 8 * j + e, e < 2, of which there are `left`.
 * They arrive together, ahead of stores. */
void FN(read_row)(float row[2 * NJ], SRC from, long apart, int left, float factor)
{
#pragma unroll
    for (int i = 0; i < 2 * NJ; i++) {
        const int n = i / 2 * 8 + i % 2;
        row[i] = n < left ? factor * from[n * apart] : 0.0f;
    }
}

/* Results of a work-item, pairs of columns where they lie on a boundary. */
void FN(store)(const float sum[SUMS], int row, int column, const struct FN(tile) *t, SRC mc, SRC add, DST y,
               const struct gemm_args *a)
{
    const bool pairs = ((ulong)y & 7) == 0 && a->y_m % 2 == 0;
    const int first = t->col + column, left = a->n - first;
    float c[2 * NJ], other[2 * NJ];
#pragma unroll
    for (int i = 0; i < 2 * NJ; i++)
        c[i] = other[i] = 0.0f;
#pragma unroll
    for (int h = 0; h < 2 * MI; h++) {
        const int r = t->row + row + 8 * h;
        if (r < a->m) {
#if EPI_BIAS
            if (h == 0 || a->c_m != 0)
                FN(read_row)(c, mc + r * a->c_m + first * a->c_n, a->c_n, left, a->beta);
#endif
#if EPI_ADD
            FN(read_row)(other, add + r * a->add_m + first, 1, left, 1.0f);
#endif
            DST to = y + r * a->y_m + first;
#pragma unroll
            for (int j = 0; j < NJ; j++) {
                float two[2];
#pragma unroll
                for (int e = 0; e < 2; e++)
                    two[e] = EPILOGUE_END(a->alpha * sum[((h / 2 * NJ + j) * 2 + h % 2) * 2 + e] + c[2 * j + e],
                                          other[2 * j + e], a);
                if (pairs && 8 * j + 1 < left)
                    *(global float2 *)(to + 8 * j) = (float2)(two[0], two[1]);
                else
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        if (8 * j + e < left)
                            to[8 * j + e] = two[e];
            }
        }
    }
}

#if SPLIT
#define FIXUP_ITEMS WG
#define FIXUP_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#include "conv_nvidia/conv_parts.clh"
/* True for the last group of the tile, which then has the sums of all; partial: the tile's; last: one less than its
 * groups. */
bool FN(fixup)(float sum[SUMS], int row, int column, int split, const struct FN(tile) *t, global float4 *partial,
               global uint *arrived, uint last, const struct gemm_args *a, local uint *before)
{
    global float4 *from = partial + LANE, *mine = from + split * PARTIALS;
    FN(leave)(sum, mine);
#if PRODUCTS == 3
    const ulong lost = FN(lost)(sum);
    if (lost)
#pragma unroll 1
        for (int i = 0; i < SUMS; i++) {
            const int r = SUM_ROW(i, row), n = SUM_COLUMN(i, column);
            if ((lost >> i & 1) && t->row + r < a->m && t->col + n < a->n)
                ((global float *)(mine + i / 4 * WG))[i % 4] = FN(define)(r, n, t, a);
        }
#endif
    return FN(put_together)(sum, from, arrived, last, before);
}
#endif

/* The end of a tile whose sums are complete. */
void FN(finish)(const float sum[SUMS], int row, int column, const struct FN(tile) *t, SRC mc, SRC add, DST y,
                const struct gemm_args *a)
{
    FN(store)(sum, row, column, t, mc, add, y, a);
#if PRODUCTS == 3 && !SPLIT
    const ulong lost = FN(lost)(sum);
    if (lost)
#pragma unroll 1
        for (int i = 0; i < SUMS; i++) {
            const int r = SUM_ROW(i, row), n = SUM_COLUMN(i, column);
            if ((lost >> i & 1) && t->row + r < a->m && t->col + n < a->n)
                y[(t->row + r) * a->y_m + t->col + n] =
                    GEMM_RESULT(a->alpha * FN(define)(r, n, t, a), mc, add, t->row + r, t->col + n, a);
        }
#endif
}

void FN(body)(ulong group, SRC ma, SRC mb, DST partial, DST arrived, SRC mc, SRC add, DST y,
              const struct gemm_mma_args *p, local float4 *scratch)
{
    const struct gemm_args *a = &p->gemm;
    const uint across = (uint)(a->n + BN - 1) / BN, down = (uint)(a->m + BM - 1) / BM, each = (uint)p->each;
    const uint split = (uint)group / each, tile = (uint)group - split * each, rest = tile / across;
    struct FN(tile) t;
    t.item = rest / down;
    t.row = (int)(rest % down) * BM;
    t.col = (int)(tile % across) * BN;
    t.chunk = (int)split * p->share;
    t.end = min(t.chunk + p->share, (a->k + BK - 1) / BK);
    t.a = ma + FN(batch_offset)(t.item, a->a_b, a) + t.row * a->a_m;
    t.b = mb + FN(batch_offset)(t.item, a->b_b, a) + t.col * a->b_n;
    local float *stages = (local float *)scratch;
    const uint to = LOCAL_ADDRESS(stages);
    struct FN(walk) wa = FN(walk_of)(t.a, A_DEEP, BM, a->a_m, a->a_k, a->m - t.row, t.chunk * BK, a->k);
    struct FN(walk) wb = FN(walk_of)(t.b, B_DEEP, BN, a->b_n, a->b_k, a->n - t.col, t.chunk * BK, a->k);
    const int row = MMA_ROW, first = MMA_FIRST_COLUMN;
    float sum[MI][NJ][4];
    FN(clear)(sum);

    int next = t.chunk; /* of the next batch of copies */
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (next < t.end) {
            FN(load)(to + i * STAGE * 4, &wa, A_DEEP, BM);
            FN(load)(to + (i * STAGE + FLOATS(A_DEEP, BM)) * 4, &wb, B_DEEP, BN);
            next++;
        }
        COPIES_CLOSE;
    }
    int fill = STAGES - 1, slot = 0;
    for (int chunk = t.chunk; chunk < t.end; chunk++) {
        COPIES_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < t.end) {
            FN(load)(to + fill * STAGE * 4, &wa, A_DEEP, BM);
            FN(load)(to + (fill * STAGE + FLOATS(A_DEEP, BM)) * 4, &wb, B_DEEP, BN);
            next++;
        }
        COPIES_CLOSE;
        fill = fill + 1 == STAGES ? 0 : fill + 1;
        const local float *as = stages + slot * STAGE;
        FN(multiply)(sum, as, as + FLOATS(A_DEEP, BM), row, MMA_COLUMN);
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }

    const int column = first + LANE % 4 * 2;
    SRC addt = add + FN(batch_offset)(t.item, a->add_b, a);
    DST yt = y + FN(batch_offset)(t.item, a->y_b, a);
#if SPLIT
    if (FN(fixup)(&sum[0][0][0], row, column, (int)split, &t,
                  (global float4 *)partial + (long)tile * p->split_k * PARTIALS, (global uint *)arrived + tile,
                  (uint)p->split_k - 1, a, (local uint *)scratch))
#endif
        FN(finish)(&sum[0][0][0], row, column, &t, mc, addt, yt, a);
    barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC ma, ulong a_off, SRC mb, ulong b_off, DST partial, ulong partial_off, DST arrived,
                ulong arrived_off, SRC mc, ulong c_off, SRC add, ulong add_off, DST y, ulong y_off,
                const struct gemm_mma_args p)
{
    local float4 scratch[STAGES * STAGE / 4];
    FN(body)(GROUP, ma + a_off, mb + b_off, partial + partial_off, arrived + arrived_off, mc + c_off, add + add_off,
             y + y_off, &p, scratch);
}
#endif
