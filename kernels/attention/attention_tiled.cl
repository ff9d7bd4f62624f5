/* attention_tiled.cl: attention through tiles in local memory: a group takes RQ * WG / 16 rows of q of one head.
 *
 *   y[l][e] = sum_s p[l][s] v[s][e] / sum_s p[l][s],  p[l][s] = exp(scale * sum_d q[l][d] k[s][d] + mask[l][s] - max_s)
 *
 * Rows of k and v come in blocks of 32, columns in parts of 32. Scores stay in local memory; the maximum, the sum and
 * the result are those of the blocks so far, and are scaled when a block brings a larger maximum.
 * Layouts: any strides, struct attention_args (neighbouring work-items read along the dense one). With CAUSAL a row l
 * sees the rows s up to l.
 * Index map: group = (n * heads + h) * ceil(L / rows of a group) + tile of rows. Of a tile a work-item has RQ rows, and
 * two of the 32 scores, or two of every 32 columns.
 * Work-group: WG, a multiple of 16. Local memory: scores, and a part of q, and of k or v.
 * Defines: RQ (1, 2 or 4), PARTS (parts of 32 columns that v has, 1 to 8), MASK (attention_mask.clh, 0: none), CAUSAL
 * (0 or 1). */
#include "common/clcnn.clh"
#include "attention/attention_args.h"
#ifndef FN
#define FN(x) attention_tiled_##x
#endif
#ifndef RQ
#define RQ 4
#endif
#ifndef PARTS
#define PARTS 2
#endif
#ifndef MASK
#define MASK 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#include "attention/attention_mask.clh"
#define ACROSS 16 /* work-items side by side */
#define PAIR 2    /* scores or columns of each */
#define BLOCK (ACROSS * PAIR)
#define TILE_ROWS (RQ * (WG / ACROSS))
#define TALL (TILE_ROWS + 4) /* floats from one column of q, or row of scores, to the next */
#define WIDE (BLOCK + 4)     /* from one column of k, or row of v, to the next */

struct FN(tile) {
    local float *q, *k, *p; /* [column][row of q], [column][row of k] or [row of v][column], [row of k][row of q] */
    int row, pair;          /* of this work-item: its first row, its first score or column */
};

/* to[c][r] = factor * from[r * row + c * column] for c below BLOCK and r below `width`; zeros past `rows` and
 * `columns`. */
void FN(bring)(local float *to, int width, int apart, SRC from, long row, long column, int rows, int columns,
               float factor)
{
    for (int i = LANE; i < width * BLOCK; i += WG) {
        const int r = column == 1 ? i / BLOCK : i % width, c = column == 1 ? i % BLOCK : i / width;
        to[c * apart + r] = r < rows && c < columns ? from[r * row + c * column] * factor : 0.0f;
    }
}

/* The RQ neighbours at p. */
void FN(read_rows)(const local float *p, float v[RQ])
{
#if RQ == 4
    vstore4(*(const local float4 *)p, 0, v);
#else
#pragma unroll
    for (int i = 0; i < RQ; i++)
        v[i] = p[i];
#endif
}

/* sum[i][j] += column[i] * row[j] for the rows and the pair of this work-item. */
void FN(multiply)(const local float *column, const local float *row, float sum[RQ][PAIR], float weights[RQ])
{
    float other[PAIR];
    FN(read_rows)(column, weights);
    vstore2(*(const local float2 *)row, 0, other);
#pragma unroll
    for (int i = 0; i < RQ; i++)
#pragma unroll
        for (int j = 0; j < PAIR; j++)
            sum[i][j] = fma(weights[i], other[j], sum[i][j]);
}

/* Scores of the rows from s0 on, without the mask. Needs a barrier before and after. */
void FN(products)(const struct FN(tile) *t, SRC q, SRC k, int there, int s0, float score[RQ][PAIR],
                  const struct attention_args *a)
{
    float unused[RQ];
#pragma unroll
    for (int i = 0; i < RQ; i++)
        score[i][0] = score[i][1] = 0.0f;
    for (int d = 0; d < a->d; d += BLOCK) {
        barrier(CLK_LOCAL_MEM_FENCE);
        FN(bring)(t->q, TILE_ROWS, TALL, q + d * a->q[3], a->q[2], a->q[3], there, a->d - d, a->scale);
        FN(bring)(t->k, BLOCK, WIDE, k + s0 * a->k[2] + d * a->k[3], a->k[2], a->k[3], a->s - s0, a->d - d, 1.0f);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c = 0; c < min(BLOCK, a->d - d); c++)
            FN(multiply)(t->q + c * TALL + t->row, t->k + c * WIDE + t->pair, score, unused);
    }
}

/* Scores go to local memory; -infinity stands for what row l0 + row does not see. */
void FN(keep_scores)(const struct FN(tile) *t, SRC mask, SRC outer, float score[RQ][PAIR], int l0, int s0, int there,
                     const struct attention_args *a)
{
#pragma unroll
    for (int i = 0; i < RQ; i++)
#pragma unroll
        for (int j = 0; j < PAIR; j++) {
            const int s = s0 + t->pair + j;
            float v = score[i][j];
#if MASK
            if (s < a->s && t->row + i < there)
                v += MASK_AT(t->row + i, s);
#endif
            t->p[(t->pair + j) * TALL + t->row + i] =
                s < (CAUSAL ? min(a->s, l0 + t->row + i + 1) : a->s) ? v : -INFINITY;
        }
}

/* The block's largest scores join `top`; `scale` is what the results so far become, `base` what scores are taken
 * from. */
void FN(raise)(const struct FN(tile) *t, float top[RQ], float scale[RQ], float base[RQ])
{
    float largest[RQ], v[RQ];
#pragma unroll
    for (int i = 0; i < RQ; i++)
        largest[i] = top[i];
    for (int s = 0; s < BLOCK; s++) { /* fmax drops NaN, which the exponentials then show */
        FN(read_rows)(t->p + s * TALL + t->row, v);
#pragma unroll
        for (int i = 0; i < RQ; i++)
            largest[i] = fmax(largest[i], v[i]);
    }
#pragma unroll
    for (int i = 0; i < RQ; i++) {
        base[i] = largest[i] == -INFINITY ? 0.0f : largest[i]; /* nothing seen: all weights are 0 */
        scale[i] = exp(top[i] - base[i]);
        top[i] = largest[i];
    }
}

void FN(weigh)(const struct FN(tile) *t, const float base[RQ])
{
#pragma unroll
    for (int j = 0; j < PAIR; j++)
#pragma unroll
        for (int i = 0; i < RQ; i++) {
            local float *p = t->p + (t->pair + j) * TALL + t->row + i;
            *p = exp(*p - base[i]);
        }
}

/* The block's rows of v, columns e and up, which are in local memory, join the results so far. */
void FN(add_rows)(const struct FN(tile) *t, float result[RQ][PAIR], float total[RQ], const float scale[RQ])
{
    float sum[RQ][PAIR], weights[RQ];
#pragma unroll
    for (int i = 0; i < RQ; i++)
        sum[i][0] = sum[i][1] = total[i] = 0.0f;
    for (int s = 0; s < BLOCK; s++) {
        FN(multiply)(t->p + s * TALL + t->row, t->k + s * WIDE + t->pair, sum, weights);
#pragma unroll
        for (int i = 0; i < RQ; i++)
            total[i] += weights[i];
    }
#pragma unroll
    for (int i = 0; i < RQ; i++)
#pragma unroll
        for (int j = 0; j < PAIR; j++)
            result[i][j] = fma(result[i][j], scale[i], sum[i][j]);
}

/* One tile: pointers to its head, those of q, mask and y to its row l0. */
void FN(rows)(SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, int l0, const struct FN(tile) *t,
              const struct attention_args *a)
{
    const int there = min(TILE_ROWS, a->l - l0), seen = CAUSAL ? min(a->s, l0 + there) : a->s;
    float top[RQ], sum[RQ], result[PARTS][RQ][PAIR], score[RQ][PAIR], scale[RQ], base[RQ], total[RQ];
#pragma unroll
    for (int i = 0; i < RQ; i++) {
        top[i] = -INFINITY;
        sum[i] = 0.0f;
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            result[part][i][0] = result[part][i][1] = 0.0f;
    }
    for (int s0 = 0; s0 < seen; s0 += BLOCK) {
        FN(products)(t, q, k, there, s0, score, a);
        FN(keep_scores)(t, mask, outer, score, l0, s0, there, a);
        barrier(CLK_LOCAL_MEM_FENCE);
        FN(raise)(t, top, scale, base);
        barrier(CLK_LOCAL_MEM_FENCE);
        FN(weigh)(t, base);
#pragma unroll
        /* unconditionally: PoCL doubles what comes after a barrier in an if */
        for (int part = 0; part < PARTS; part++) {
            const int e = part * BLOCK;
            FN(bring)(t->k, BLOCK, WIDE, v + s0 * a->v[2] + e * a->v[3], a->v[3], a->v[2], a->e - e, a->s - s0, 1.0f);
            barrier(CLK_LOCAL_MEM_FENCE);
            FN(add_rows)(t, result[part], total, scale);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#pragma unroll
        for (int i = 0; i < RQ; i++)
            sum[i] = fma(sum[i], scale[i], total[i]);
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int i = 0; i < RQ; i++)
#pragma unroll
            for (int j = 0; j < PAIR; j++) {
                const int e = part * BLOCK + t->pair + j;
                if (t->row + i < there && e < a->e)
                    y[(t->row + i) * a->y[2] + e * a->y[3]] = result[part][i][j] / sum[i];
            }
}

void FN(body)(ulong group, SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, const struct attention_args *a,
              local float4 *scratch)
{
    const int tiles = (a->l + TILE_ROWS - 1) / TILE_ROWS;
    const int l0 = (int)(group % tiles) * TILE_ROWS;
    const long head = (long)(group / tiles), n = head / a->heads, h = head % a->heads;
    struct FN(tile) t;
    t.q = (local float *)scratch;
    t.p = t.q + BLOCK * TALL;
    t.k = t.p + BLOCK * TALL;
    t.row = LANE / ACROSS * RQ;
    t.pair = LANE % ACROSS * PAIR;
    FN(rows)(q + ATTENTION_ITEM(n, a->q, a->run) + h * a->q[1] + l0 * a->q[2],
             k + ATTENTION_ITEM(n, a->k, a->run) + h * a->k[1], v + ATTENTION_ITEM(n, a->v, a->run) + h * a->v[1],
             mask + n % a->period * a->mask[0] + h * a->mask[1] + l0 * a->mask[2],
             outer + n * a->outer[0] + h * a->outer[1] + l0 * a->outer[2],
             y + ATTENTION_ITEM(n, a->y, a->run) + h * a->y[1] + l0 * a->y[2], l0, &t, a);
}

KERNEL FN(main)(SRC q, ulong q_off, SRC k, ulong k_off, SRC v, ulong v_off, SRC mask, ulong mask_off, SRC outer,
                ulong outer_off, DST y, ulong y_off, const struct attention_args a)
{
    local float4 scratch[BLOCK * (2 * TALL + WIDE) / 4];
    FN(body)(GROUP, q + q_off, k + k_off, v + v_off, mask + mask_off, outer + outer_off, y + y_off, &a, scratch);
}
