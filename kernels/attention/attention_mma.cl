/* attention_mma.cl: attention on NVIDIA's tensor cores: a warp (32 work-items) takes 16 rows of q of one head.
 *
 *   y[l][e] = sum_s p[l][s] v[s][e] / sum_s p[l][s],  p[l][s] = exp(scale * sum_d q[l][d] k[s][d] + mask[l][s] - max_s)
 *
 * Everything is in registers: rows of k and v come in blocks of 32, straight from where they lie; the fragment of
 * scores that a product leaves is the one that the next product takes, with the rows of v in another order. The
 * maximum, the sum and the result are those of the blocks so far. `split` warps share the rows of k and v of one tile,
 * and put their results together through local memory; with COLUMNS all warps of the group share its columns instead,
 * and put the parts of the scores together. Products are of float32 as sums of two tf32 values (mma.clh);
 * with PRODUCTS 1 the weights and v are tf32 in their product. What is not a number is computed again by its
 * definition, since the split of an infinity is not one.
 * Layouts: any strides, struct attention_args; reads vectors where columns lie side by side and aligned. D at most
 * 8 * ND, E at most 8 * NE, times WARPS with COLUMNS. With CAUSAL a row l sees the rows s up to l.
 * Index map: group = block of WARPS / split tiles, with COLUMNS one tile; tile = (n * heads + h) * ceil(L / 16) + rows
 * of q.
 * Work-group: WG. Local memory: the results of all warps.
 * Defines: WG 128 or 256, PRODUCTS (1 or 3), ND, NE (1 to 16: steps of 8 columns), MASK (attention_mask.clh, 0: none),
 * CAUSAL, COLUMNS (0 or 1), POSITIONS (1: those of k and v lie side by side, by fours; their columns apart), CORES (0:
 * default, 1: y is scaled halves in cores, with PAIRS 1 pairs of them, common/cores.clh); ND is required by
 * FN(main). */
#include "common/clcnn.clh"
#include "attention/attention_args.h"
#include "conv_nvidia/mma.clh"
#ifndef FN
#define FN(x) attention_mma_##x
#endif
#ifndef ND
#error "ND is required, and so is a device with PTX"
#else /* NVIDIA's compiler crashes on the errors that would follow */
#ifndef MASK
#define MASK 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef COLUMNS
#define COLUMNS 0
#endif
#ifndef POSITIONS
#define POSITIONS 0
#endif
#ifndef CORES
#define CORES 0
#endif
#ifndef PAIRS
#define PAIRS 0
#endif
#include "common/cores.clh"
#define WARPS (WG / 32)
#define ROWS 16                                    /* of q */
#define TILES 4                                    /* of 8 rows of k and v */
#define BLOCK (8 * TILES)                          /* rows of k and v that share one maximum */
#define CUT 4                                      /* steps of 8 columns that a sum inside the tensor core runs over */
#define DW (ND % 2 ? 2 : 4)                        /* columns of q and k that a work-item reads at once */
#define EW (NE % 4 == 0 ? 4 : NE % 2 == 0 ? 2 : 1) /* of v */
#define KEPT (COLUMNS ? 4 * TILES : 4 * NE + 4)    /* floats that a work-item hands to another warp */
#define AHEAD(row, stride) ((long)(int)(row) * (int)(stride)) /* in one instruction */
#define MASK_TIMES AHEAD
#undef KEY
#undef NUMBER
#include "attention/attention_mask.clh"
#define LOG2_E 0x1.715476p+0f
#define CLEAR(v, count) /* count fragments */                                                                \
    _Pragma("unroll") for (int clear_j = 0; clear_j < (count); clear_j++)(v)[clear_j][0] = (v)[clear_j][1] = \
        (v)[clear_j][2] = (v)[clear_j][3] = 0.0f
#define EXP2(out, x) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x))

/* A warp's tile: rows l0 and up, `there` of them; rows from..end-1 of k and v; of q and k columns d0..d0+d-1, and e of
 * v, from where its pointer stands. */
struct FN(tile) {
    int g, t; /* row and column of this work-item in fragments, as mma.clh has them */
    int there, l0, from, end, d0, d, e;
    bool wide_y; /* vectors can be written */
};

struct FN(state) {
    float result[NE][4], top[2], sum[2]; /* rows g and g + 8; each work-item has a part of the sum */
};

#include "attention/attention_mma_read.clh"

/* Operands of the tensor core. */
__attribute__((always_inline)) void FN(divide)(float x, uint *high, uint *low)
{
    *high = TF32_ROUNDED(x);
    *low = TF32_LOW(x, *high);
}

/* sum[j] += a b[j] for `count` fragments, TILES at most, by one product or three */
__attribute__((always_inline)) void FN(multiply)(float (*sum)[4], const float a[4], const float (*b)[2], int count,
                                                 int products)
{
    uint ah[4], al[4], bh[TILES][2], bl[TILES][2];
#pragma unroll
    for (int i = 0; i < 4; i++)
        FN(divide)(a[i], &ah[i], &al[i]);
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (j < count)
                FN(divide)(b[j][i], &bh[j][i], &bl[j][i]);
#pragma unroll
    for (int j = 0; j < TILES; j++)
        if (j < count && products == 3)
            MMA(sum[j], al, bh[j]);
#pragma unroll
    for (int j = 0; j < TILES; j++)
        if (j < count && products == 3)
            MMA(sum[j], ah, bl[j]);
#pragma unroll
    for (int j = 0; j < TILES; j++)
        if (j < count)
            MMA(sum[j], ah, bh[j]);
}

/* One score by its definition, for row `row` of the tile. */
float FN(score)(SRC q, SRC k, SRC mask, SRC outer, int row, int s, const struct attention_args *a)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int d = 0; d < a->d; d++)
        sum = fma(q[row * a->q[2] + d * a->q[3]], k[s * a->k[2] + d * a->k[3]], sum);
    sum *= a->scale;
#if MASK
    sum += MASK_AT(row, s);
#endif
    return sum;
}

/* score[j]: rows g and g + 8 of the tile by rows s0 + 8 j + 2 t and the next one of k */
__attribute__((always_inline)) void FN(products)(float score[TILES][4], const float qv[2][2 * ND], SRC k, int s0,
                                                 bool wide, const struct FN(tile) *t, const struct attention_args *a)
{
    CLEAR(score, TILES);
#pragma unroll
    for (int first = 0; first < ND; first += CUT) {
        const int count = ND - first < CUT ? ND - first : CUT; /* steps */
        float kv[TILES][2 * CUT], sum[TILES][4];
        FN(read_keys)(kv, k + t->d0 * a->k[3], s0, first, count, wide, t, a);
        CLEAR(sum, TILES);
#pragma unroll
        for (int i = 0; i < CUT; i++) {
            if (i >= count)
                continue;
            const int at = 2 * (first + i);
            const float rows[4] = {qv[0][at], qv[1][at], qv[0][at + 1], qv[1][at + 1]};
            float columns[TILES][2];
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                columns[j][0] = kv[j][2 * i];
                columns[j][1] = kv[j][2 * i + 1];
            }
            FN(multiply)(sum, rows, columns, TILES, 3);
        }
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                score[j][i] += sum[j][i];
    }
}

/* Adds the mask; -infinity stands for what a row does not see. */
__attribute__((always_inline)) void FN(hide)(float score[TILES][4], SRC q, SRC k, SRC mask, SRC outer, int s0,
                                             const struct FN(tile) *t, const struct attention_args *a)
{
    bool odd = false;
#pragma unroll
    for (int j = 0; j < TILES; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int s = KEY(s0, j, 2 * t->t + i % 2);
#if MASK
            score[j][i] += MASK_AT(min(t->g + i / 2 * 8, t->there - 1), min(s, a->s - 1));
#endif
            odd |= isnan(score[j][i]);
        }
    if (CAUSAL || s0 + BLOCK > t->end)
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int s = KEY(s0, j, 2 * t->t + i % 2);
                if (CAUSAL ? s >= min(t->end, t->l0 + t->g + i / 2 * 8 + 1) : s >= t->end)
                    score[j][i] = -INFINITY;
            }
    if (!odd)
        return;
#pragma unroll 1 /* each copy of the definition makes the kernel longer */
    for (int at = 0; at < 4 * TILES; at++) {
        const int row = min(t->g + at / 2 % 2 * 8, t->there - 1), s = KEY(s0, at / 4, 2 * t->t + at % 2);
        const float v = s < t->end ? FN(score)(q, k, mask, outer, row, s, a) : 0.0f;
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                score[j][i] = at == 4 * j + i && isnan(score[j][i]) ? v : score[j][i];
    }
}

/* Scores become their exponentials; the maximum and the sum take them up. `scale` is what the results so far become. */
__attribute__((always_inline)) void FN(weights)(float score[TILES][4], struct FN(state) *state, float scale[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = state->top[r], other, sum = 0.0f;
#pragma unroll
        for (int j = 0; j < TILES; j++) /* fmax drops NaN, which the exponentials then show */
            top = fmax(top, fmax(score[j][2 * r], score[j][2 * r + 1]));
        FROM_LANE(other, top, 1);
        top = fmax(top, other);
        FROM_LANE(other, top, 2);
        top = fmax(top, other);
        const float base = top == -INFINITY ? 0.0f : top; /* nothing seen: all weights are 0 */
#pragma unroll
        for (int j = 0; j < TILES; j++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                EXP2(score[j][i], (score[j][i] - base) * LOG2_E);
                sum += score[j][i];
            }
        EXP2(scale[r], (state->top[r] - base) * LOG2_E);
        state->sum[r] = fma(state->sum[r], scale[r], sum);
        state->top[r] = top;
    }
}

/* The block's rows of v join the results so far: a step's rows 2 t and 2 t + 1 are what this work-item has of the
 * scores.
 * Fragment b * EW + i has columns 8 EW b + EW n + i. */
__attribute__((always_inline)) void FN(add_rows)(struct FN(state) *state, const float weight[TILES][4],
                                                 const float scale[2], SRC v, int s0, bool wide,
                                                 const struct FN(tile) *t, const struct attention_args *a)
{
#pragma unroll
    for (int b = 0; b < NE / EW; b++) {
        float vv[TILES][2][EW], sum[EW][4];
        FN(read_rows)(vv, v, s0, 8 * EW * b + EW * t->g, wide, t, a);
        CLEAR(sum, EW);
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            const float rows[4] = {weight[j][0], weight[j][2], weight[j][1], weight[j][3]};
            float columns[EW][2];
#pragma unroll
            for (int i = 0; i < EW; i++) {
                columns[i][0] = vv[j][0][i];
                columns[i][1] = vv[j][1][i];
            }
            FN(multiply)(sum, rows, columns, EW, PRODUCTS);
        }
#pragma unroll
        for (int i = 0; i < EW; i++)
#pragma unroll
            for (int x = 0; x < 4; x++)
                state->result[b * EW + i][x] = fma(state->result[b * EW + i][x], scale[x / 2], sum[i][x]);
    }
}

#include "attention/attention_mma_share.clh"

/* All rows of k and v that are this warp's; `parts` as FN(add_parts) has it. */
__attribute__((always_inline)) void FN(rows)(struct FN(state) *state, SRC q, SRC k, SRC v, SRC mask, SRC outer,
                                             bool wide, local float *parts, int warp, const struct FN(tile) *t,
                                             const struct attention_args *a)
{
    float qv[2][2 * ND], score[TILES][4], scale[2], other;
    CLEAR(state->result, NE);
#pragma unroll
    for (int r = 0; r < 2; r++) {
#pragma unroll
        for (int first = 0; first < ND; first += CUT)
            FN(read_columns)(qv[r] + 2 * first, q + t->d0 * a->q[3] + min(t->g + 8 * r, t->there - 1) * a->q[2], first,
                             ND - first < CUT ? ND - first : CUT, a->q[3], t->d, wide && !POSITIONS, t->t);
#pragma unroll
        for (int i = 0; i < 2 * ND; i++)
            qv[r][i] *= a->scale;
        state->top[r] = -INFINITY;
        state->sum[r] = 0.0f;
    }
    for (int s0 = t->from; s0 < t->end; s0 += BLOCK) {
        FN(products)(score, qv, k, s0, wide, t, a);
#if COLUMNS
        FN(add_parts)(score, parts, warp);
#endif
        FN(hide)(score, q, k, mask, outer, s0, t, a);
        FN(weights)(score, state, scale);
        FN(add_rows)(state, score, scale, v, s0, wide, t, a);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        FROM_LANE(other, state->sum[r], 1);
        state->sum[r] += other;
        FROM_LANE(other, state->sum[r], 2);
        state->sum[r] += other;
    }
}

/* One result by its definition, but for the maximum and the sum, which are numbers. */
float FN(define)(SRC q, SRC k, SRC v, SRC mask, SRC outer, int row, int e, float top, float total, int l0,
                 const struct attention_args *a)
{
    const int seen = CAUSAL ? min(a->s, l0 + row + 1) : a->s;
    float sum = 0.0f;
#pragma unroll 1
    for (int s = 0; s < seen; s++) {
        float p;
        EXP2(p, (FN(score)(q, k, mask, outer, row, s, a) - top) * LOG2_E);
        sum = fma(p, v[s * a->v[2] + e * a->v[3]], sum);
    }
    return sum / total;
}

/* Divides by the sums. */
void FN(finish)(struct FN(state) *state, SRC q, SRC k, SRC v, SRC mask, SRC outer, const struct FN(tile) *t,
                const struct attention_args *a)
{
    const float gain[2] = {1.0f / state->sum[0], 1.0f / state->sum[1]};
    bool odd = false;
#pragma unroll
    for (int j = 0; j < NE; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            state->result[j][i] *= gain[i / 2];
            odd |= !isfinite(state->result[j][i]) && state->sum[i / 2] > 0.0f && isfinite(state->sum[i / 2]);
        }
    if (!odd)
        return;
#pragma unroll 1
    for (int at = 0; at < 4 * NE; at++) {
        const int r = at / 2 % 2, row = t->g + 8 * r;
        const int e = at / (4 * EW) * (8 * EW) + EW * (2 * t->t + at % 2) + at / 4 % EW;
        const float sum = r ? state->sum[1] : state->sum[0];
        float y = NAN;
        if (row < t->there && e < t->e && sum > 0.0f && isfinite(sum))
            y = FN(define)(q, k, v, mask, outer, row, e, r ? state->top[1] : state->top[0], sum, t->l0, a);
#pragma unroll
        for (int j = 0; j < NE; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (at == 4 * j + i && !isfinite(state->result[j][i]))
                    state->result[j][i] = y;
    }
}

#include "attention/attention_mma_store.clh"

void FN(body)(ulong group, SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, const struct attention_mma_args *ma,
              local float4 *scratch)
{
    const struct attention_args *a = &ma->attention;
    const int tiles = (a->l + ROWS - 1) / ROWS, split = ma->split, warp = LANE / 32, lane = LANE % 32;
    const int part = COLUMNS ? 0 : warp % split, across = COLUMNS ? warp : 0;
    const long tile = COLUMNS ? (long)group : (long)group * (WARPS / split) + warp / split, head = tile / tiles;
    const long n = head / a->heads, h = head % a->heads;
    local float *parts = (local float *)scratch + lane, *kept = parts + warp * (32 * KEPT);
    struct FN(tile) t;
    struct FN(state) state;
    t.g = lane / 4;
    t.t = lane % 4;
    t.l0 = (int)(tile % tiles) * ROWS;
    t.there = min(ROWS, a->l - t.l0);
    t.d0 = across * (8 * ND);
    t.d = a->d - t.d0;
    t.e = a->e - across * (8 * NE);
    t.from = part * ma->share;
    t.end = n < a->n ? min(t.from + ma->share, CAUSAL ? min(a->s, t.l0 + t.there) : a->s) : 0;
#if POSITIONS
    const bool wide = ((ulong)k | (ulong)v) % sizeof(float4) == 0;
#else
    const bool wide =
        FN(wide)((ulong)q, a->q, a->d, DW) && FN(wide)((ulong)k, a->k, a->d, DW) && FN(wide)((ulong)v, a->v, a->e, EW);
#endif
    t.wide_y = EW > 1 && FN(wide)((ulong)y, a->y, a->e, EW);
    long from = 0;
    if (n < a->n) {
        q += ATTENTION_ITEM(n, a->q, a->run) + h * a->q[1] + t.l0 * a->q[2];
        k += ATTENTION_ITEM(n, a->k, a->run) + h * a->k[1];
        v += ATTENTION_ITEM(n, a->v, a->run) + h * a->v[1] + across * (8 * NE) * a->v[3];
        mask += n % a->period * a->mask[0] + h * a->mask[1] + t.l0 * a->mask[2];
        outer += n * a->outer[0] + h * a->outer[1] + t.l0 * a->outer[2];
        from = ATTENTION_ITEM(n, a->y, a->run) + h * a->y[1] + t.l0 * a->y[2] + across * (8 * NE) * a->y[3];
        if (wide) /* two copies, since the one with vectors then fits the cache of instructions */
            FN(rows)(&state, q, k, v, mask, outer, true, parts, warp, &t, a);
        else
            FN(rows)(&state, q, k, v, mask, outer, false, parts, warp, &t, a);
        if (part > 0)
            FN(keep)(kept, &state);
    }
    if (split > 1)
        barrier(CLK_LOCAL_MEM_FENCE);
    if (part == 0 && n < a->n) {
        FN(join)(&state, kept, split);
        FN(finish)(&state, q, k, v, mask, outer, &t, a);
#if CORES
        FN(store_halves)(&state, y, from, &t, ma);
#else
        FN(store)(&state, y + from, &t, a);
#endif
    }
    if (split > 1)
        barrier(CLK_LOCAL_MEM_FENCE);
}

KERNEL FN(main)(SRC q, ulong q_off, SRC k, ulong k_off, SRC v, ulong v_off, SRC mask, ulong mask_off, SRC outer,
                ulong outer_off, DST y, ulong y_off, const struct attention_mma_args a)
{
    local float4 scratch[WARPS * 32 * KEPT / 4];
    FN(body)(GROUP, q + q_off, k + k_off, v + v_off, mask + mask_off, outer + outer_off, y + y_off, &a, scratch);
}
#endif
