/* attention_flash.cl: attention for CPU devices: a work-item takes QV * V rows of q of one head, a lane each.
 *
 *   y[l][e] = sum_s p[l][s] v[s][e] / sum_s p[l][s],  p[l][s] = exp(scale * sum_d q[l][d] k[s][d] + mask[l][s] - max_s)
 *
 * Rows of k and v come in blocks; the maximum, the sum and the result are those of the blocks so far, and are scaled
 * when a block brings a larger maximum. As rows of q are lanes, each element of k and v is one for all lanes, wherever
 * it lies, and no sum runs across lanes; q, the mask and y are turned in blocks of V * V.
 * Layouts: any strides, struct attention_args; D and E at most 256. With CAUSAL a row l sees the rows s up to l.
 * Index map: group = (n * heads + h) * ceil(L / (QV * V)) + tile of rows.
 * Work-group: WG = 1. Local memory: none.
 * `turn_mask`: group = item of the mask * heads + head; a constant mask with its rows as lanes, [ceil(L/d)][s][d],
 * zeros past L.
 * Defines: V (vec.clh), QV (1 to 4), ROWS (rows of k, or columns of v, of a register tile: 4, 6 or 8), MASK (1: there
 * is a mask, 2: made by turn_mask, 3: in two parts, attention_args.h, of at most 256 columns each), CAUSAL (0 or 1). */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "attention/attention_args.h"
#ifndef FN
#define FN(x) attention_flash_##x
#endif
#ifndef QV
#define QV 2
#endif
#ifndef ROWS
#define ROWS 8
#endif
#ifndef MASK
#define MASK 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#include "common/vec.clh"
#include "attention/attention_exp.clh"
#include "attention/attention_turn.clh"
#define LANES_Q (QV * V) /* rows of q of a work-item */
#define WHOLE_TILES(n) (((n) + ROWS - 1) / ROWS * ROWS)
#define DEEP 256              /* most columns */
#define BLOCK WHOLE_TILES(64) /* rows of k that share one maximum */

struct FN(state) {
    FV top[QV], sum[QV];
};

/* Scores of `count` rows of k from s0 on, one row of `p` each, added to what `p` holds, or to the mask. */
void FN(scores)(const float *q, SRC k, SRC mask, float *p, int s0, int count, int last, const struct attention_args *a)
{
    for (int s = 0; s < count; s += ROWS) {
        FV acc[ROWS][QV];
        long row[ROWS];
        SRC from = k;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            row[r] = min(s0 + s + r, last) * a->k[2];
#pragma unroll
            for (int j = 0; j < QV; j++)
                acc[r][j] = 0.0f;
        }
        for (int d = 0; d < a->d; d++, from += a->k[3]) {
            FV qv[QV];
#pragma unroll
            for (int j = 0; j < QV; j++)
                qv[j] = LOADV(q, d * LANES_Q + j * V);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int j = 0; j < QV; j++)
                    acc[r][j] = fma((FV)from[row[r]], qv[j], acc[r][j]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < QV; j++) {
                float *to = p + (s + r) * LANES_Q + j * V;
#if MASK == 2
                acc[r][j] += LOADV(mask, min(s0 + s + r, last) * a->mask[3] + j * V);
#elif MASK
                acc[r][j] += LOADV(to, 0);
#endif
                KEEPV(acc[r][j], to, 0);
            }
    }
}

/* Scores become their exponentials; the maximum and the sum take them up. `scale` is what the results so far become. */
void FN(weights)(float *p, int count, struct FN(state) *state, FV *scale)
{
#pragma unroll
    for (int j = 0; j < QV; j++) {
        FV top = state->top[j], sum = 0.0f;
        for (int s = 0; s < count; s++) { /* NaN is dropped, which the exponentials then show */
            const FV score = LOADV(p, s * LANES_Q + j * V);
            top = select(top, score, score > top);
        }
        const FV base = select(top, (FV)0.0f, top == -INFINITY); /* nothing seen: all weights are 0 */
        for (int s = 0; s < count; s++) {
            const FV e = FN(exp)(LOADV(p, s * LANES_Q + j * V) - base);
            sum += e;
            KEEPV(e, p, s * LANES_Q + j * V);
        }
        scale[j] = FN(exp)(state->top[j] - base);
        state->sum[j] = fma(state->sum[j], scale[j], sum);
        state->top[j] = top;
    }
}

/* The block's rows of v join the results so far. */
void FN(add_rows)(const float *p, SRC v, float *result, int s0, int count, const FV *scale,
                  const struct attention_args *a)
{
    for (int e = 0; e < a->e; e += ROWS) {
        FV acc[ROWS][QV];
        long column[ROWS];
        SRC from = v + s0 * a->v[2];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            column[r] = min(e + r, a->e - 1) * a->v[3];
#pragma unroll
            for (int j = 0; j < QV; j++)
                acc[r][j] = 0.0f;
        }
        for (int s = 0; s < count; s++, from += a->v[2]) {
            FV pv[QV];
#pragma unroll
            for (int j = 0; j < QV; j++)
                pv[j] = LOADV(p, s * LANES_Q + j * V);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int j = 0; j < QV; j++)
                    acc[r][j] = fma((FV)from[column[r]], pv[j], acc[r][j]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int j = 0; j < QV; j++) {
                float *to = result + (e + r) * LANES_Q + j * V;
                KEEPV(fma(LOADV(to, 0), scale[j], acc[r][j]), to, 0);
            }
    }
}

#if CAUSAL
void FN(hide_later)(float *p, int s0, int count, int l0)
{
    for (int s = 0; s < count; s++)
        for (int j = 0; j < QV; j++) {
            float *at = p + s * LANES_Q + j * V;
            KEEPV(select(LOADV(at, 0), (FV)-INFINITY, s0 + s > l0 + j * V + LANES_V), at, 0);
        }
}
#endif

#if MASK == 3
/* The mask of the rows s0 and up of k: the sum of its two parts. */
void FN(add_parts)(float *p, const float *inner, const float *outer, int s0, int count, int wide)
{
    int column = s0 % wide;
    outer += s0 / wide * LANES_Q;
    for (int s = 0; s < count; s++) {
#pragma unroll
        for (int j = 0; j < QV; j++)
            KEEPV(LOADV(inner, column * LANES_Q + j * V) + LOADV(outer, j * V), p, s * LANES_Q + j * V);
        if (++column == wide) {
            column = 0;
            outer += LANES_Q;
        }
    }
}
#endif

/* One work-item: pointers to its head, rows l0 and up. */
void FN(rows)(SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, int l0, const struct attention_args *a)
{
    const int there = min(LANES_Q, a->l - l0);
    const int seen = CAUSAL ? min(a->s, l0 + there) : a->s;
    float turned[DEEP * LANES_Q], p[BLOCK * LANES_Q], result[WHOLE_TILES(DEEP) * LANES_Q];
    struct FN(state) state;
    FV scale[QV];
    FN(load_turned)(turned, q, a->q[2], a->q[3], there, a->d, a->scale);
#if MASK == 3
    float inner[DEEP * LANES_Q], outside[DEEP * LANES_Q];
    FN(load_turned)(inner, mask, a->mask[2], a->mask[3], there, a->wide, 1.0f);
    FN(load_turned)(outside, outer, a->outer[2], a->outer[3], there, a->s / a->wide, 1.0f);
#endif
#pragma unroll
    for (int j = 0; j < QV; j++) {
        state.top[j] = -INFINITY;
        state.sum[j] = 0.0f;
    }
    for (int e = 0; e < WHOLE_TILES(a->e) * QV; e++)
        KEEPV((FV)0.0f, result, e * V);
    for (int s0 = 0; s0 < seen; s0 += BLOCK) {
        const int count = min(BLOCK, seen - s0);
#if MASK == 3
        FN(add_parts)(p, inner, outside, s0, count, a->wide);
#elif MASK == 1
        FN(load_turned)(p, mask + s0 * a->mask[3], a->mask[2], a->mask[3], there, count, 1.0f);
#endif
        FN(scores)(turned, k, mask, p, s0, count, a->s - 1, a);
#if CAUSAL
        if (s0 + count > l0 + 1)
            FN(hide_later)(p, s0, count, l0);
#endif
        FN(weights)(p, count, &state, scale);
        FN(add_rows)(p, v, result, s0, count, scale, a);
    }
#pragma unroll
    for (int j = 0; j < QV; j++)
        scale[j] = 1.0f / state.sum[j];
    FN(store_turned)(y, result, a->y[2], a->y[3], there, a->e, scale);
}

void FN(body)(ulong group, SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, const struct attention_args *a)
{
    const int tiles = (a->l + LANES_Q - 1) / LANES_Q;
    const int l0 = (int)(group % tiles) * LANES_Q;
    const long head = (long)(group / tiles), n = head / a->heads, h = head % a->heads;
    FN(rows)(q + ATTENTION_ITEM(n, a->q, a->run) + h * a->q[1] + l0 * a->q[2],
             k + ATTENTION_ITEM(n, a->k, a->run) + h * a->k[1], v + ATTENTION_ITEM(n, a->v, a->run) + h * a->v[1],
             mask + n % a->period * a->mask[0] + h * a->mask[1] + l0 * a->mask[2],
             outer + n * a->outer[0] + h * a->outer[1] + l0 * a->outer[2],
             y + ATTENTION_ITEM(n, a->y, a->run) + h * a->y[1] + l0 * a->y[2], l0, a);
}

KERNEL FN(main)(SRC q, ulong q_off, SRC k, ulong k_off, SRC v, ulong v_off, SRC mask, ulong mask_off, SRC outer,
                ulong outer_off, DST y, ulong y_off, const struct attention_args a)
{
    FN(body)(GROUP, q + q_off, k + k_off, v + v_off, mask + mask_off, outer + outer_off, y + y_off, &a);
}

void FN(turn_mask_body)(ulong group, SRC mask, DST to, const struct attention_args *a)
{
    const long n = (long)group / a->heads, h = (long)group % a->heads;
    SRC from = mask + n * a->mask[0] + h * a->mask[1];
    const int tiles = (a->l + a->d - 1) / a->d;
    DST tile = to + (long)group * tiles * a->s * a->d;
    for (int l0 = 0; l0 < a->l; l0 += a->d, tile += (long)a->s * a->d)
        for (int s = 0; s < a->s; s++)
            for (int l = 0; l < a->d; l++)
                tile[(long)s * a->d + l] = l0 + l < a->l ? from[(l0 + l) * a->mask[2] + s * a->mask[3]] : 0.0f;
}

KERNEL FN(turn_mask)(SRC mask, ulong mask_off, DST to, ulong to_off, const struct attention_args a)
{
    FN(turn_mask_body)(GROUP, mask + mask_off, to + to_off, &a);
}
