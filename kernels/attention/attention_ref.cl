/* attention_ref.cl: attention by its definition: a work-item has one row of the result, or ELEMS columns of it.
 *
 *   score[s] = scale * sum_d q[l][d] k[s][d] + mask[l][s];  y[l][e] = sum_s exp(score[s] - max) v[s][e] / sum_s
 *   exp(score[s] - max)
 *
 * Scores are computed twice, for their largest and for the sums, and never stored.
 * Layouts: any strides, struct attention_args. With CAUSAL a row l sees the rows s up to l.
 * Index map: work-item = ((n * heads + h) * L + l) * ceil(E / ELEMS) + block of columns.
 * Work-group: WG work-items. Local memory: none.
 * Defines: WG (any), ELEMS (columns of a work-item), MASK (attention_mask.clh, 0: none), CAUSAL (0 or 1). */
#include "common/clcnn.clh"
#include "attention/attention_args.h"
#ifndef FN
#define FN(x) attention_ref_##x
#endif
#ifndef ELEMS
#define ELEMS 16
#endif
#ifndef MASK
#define MASK 0
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#include "attention/attention_mask.clh"
#define PART 64 /* terms that are added up by themselves, so that long sums round less */

float FN(score)(SRC q, SRC k, SRC mask, SRC outer, int s, const struct attention_args *a)
{
    float sum = 0.0f;
    for (int d = 0; d < a->d; d++)
        sum = fma(q[d * a->q[3]], k[s * a->k[2] + d * a->k[3]], sum);
    sum *= a->scale;
#if MASK
    sum += MASK_AT(0, s);
#endif
    return sum;
}

/* Columns e0 and up of the row; `seen` rows of k count. */
void FN(row)(SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, int e0, int seen, const struct attention_args *a)
{
    const int columns = min(ELEMS, a->e - e0);
    float top = -INFINITY, total = 0.0f, sum[ELEMS], part[ELEMS];
    for (int s = 0; s < seen; s++) /* fmax drops NaN, which the exponentials then show */
        top = fmax(top, FN(score)(q, k, mask, outer, s, a));
    for (int e = 0; e < ELEMS; e++)
        sum[e] = 0.0f;
    for (int s0 = 0; s0 < seen; s0 += PART) {
        float weights = 0.0f;
        for (int e = 0; e < ELEMS; e++)
            part[e] = 0.0f;
        for (int s = s0; s < min(seen, s0 + PART); s++) {
            const float p = exp(FN(score)(q, k, mask, outer, s, a) - top);
            weights += p;
            for (int e = 0; e < columns; e++)
                part[e] = fma(p, v[s * a->v[2] + (e0 + e) * a->v[3]], part[e]);
        }
        total += weights;
        for (int e = 0; e < ELEMS; e++)
            sum[e] += part[e];
    }
    for (int e = 0; e < columns; e++)
        y[(e0 + e) * a->y[3]] = sum[e] / total;
}

void FN(body)(ulong group, SRC q, SRC k, SRC v, SRC mask, SRC outer, DST y, const struct attention_args *a)
{
    const long item = (long)group * WG + LANE;
    const int blocks = (a->e + ELEMS - 1) / ELEMS;
    const int e0 = (int)(item % blocks) * ELEMS, l = (int)(item / blocks % a->l);
    const long head = item / blocks / a->l, n = head / a->heads, h = head % a->heads;
    if (n < a->n) {
        const int seen = CAUSAL ? min(a->s, l + 1) : a->s;
        FN(row)(q + ATTENTION_ITEM(n, a->q, a->run) + h * a->q[1] + l * a->q[2],
                k + ATTENTION_ITEM(n, a->k, a->run) + h * a->k[1], v + ATTENTION_ITEM(n, a->v, a->run) + h * a->v[1],
                mask + n % a->period * a->mask[0] + h * a->mask[1] + l * a->mask[2],
                outer + n * a->outer[0] + h * a->outer[1] + l * a->outer[2],
                y + ATTENTION_ITEM(n, a->y, a->run) + h * a->y[1] + l * a->y[2], e0, seen, a);
    }
}

KERNEL FN(main)(SRC q, ulong q_off, SRC k, ulong k_off, SRC v, ulong v_off, SRC mask, ulong mask_off, SRC outer,
                ulong outer_off, DST y, ulong y_off, const struct attention_args a)
{
    FN(body)(GROUP, q + q_off, k + k_off, v + v_off, mask + mask_off, outer + outer_off, y + y_off, &a);
}
