/* sequence_persistent.cl: all steps of a recurrent layer, as sequence_ref.cl has them, with the weights in registers.
 *
 * The method is that of Diamos et al., "Persistent RNNs: Stashing Recurrent Weights On-Chip" (2016). A work-item keeps
 * what all gates of one unit multiply a fourth of the state with: DEPTH / PARTS numbers of each gate. In each step it
 * multiplies that fourth of TB rows, which all read from local memory, four at a time, and leaves its sums there; then
 * a work-item adds up the four parts of a unit of a row, applies the gates, whose x it has asked for before the
 * products, and puts the new state into local memory for the next step.
 *
 * Layouts: rows of x[t * n + row][GATES * size], h, c, y and d lie batch strides apart; w packed by entry pack:
 * [k][gate][DEPTH units], DEPTH values of k, zeros past the last unit.
 * Index map: group = tile of TB rows of the batch. Work-item: part of the state * DEPTH + unit; of results, the rows
 * part, part + PARTS ... Work-group: WG = PARTS * DEPTH. Local memory: TB rows of the state, and of four gates' sums in
 * PARTS parts.
 * Defines: WG; DEPTH units with those that are zeros, a multiple of 16; GATES 3 or 4; TB 1, 2, 4 or 8. */
#ifndef WG
#define WG 64
#endif
#ifndef DEPTH
#define DEPTH 16
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/activation.clh"
#ifndef FN
#define FN(x) sequence_persistent_##x
#endif
#ifndef GATES
#define GATES 4
#endif
#ifndef TB
#define TB 1
#endif
#define PARTS 4
#define QUADS (DEPTH / PARTS / 4)             /* of a work-item's part of the state */
#define EACH ((TB + PARTS - 1) / PARTS)       /* results of a work-item; */
#define OWNS(t) (TB % PARTS == 0 || (t) < TB) /* of few rows some have none */
#include "matmul/gates.clh"

/* The sums of a work-item's unit over its part of each row of the state. */
void FN(multiply)(local float4 *sums, const local float4 *state, const float4 wv[GATES][QUADS])
{
#pragma unroll
    for (int t = 0; t < TB; t++) {
        float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < QUADS; k++) {
            const float4 hv = state[t * (DEPTH / 4) + k];
#pragma unroll
            for (int g = 0; g < GATES; g++) {
                s[g] = fma(hv.x, wv[g][k].x, s[g]);
                s[g] = fma(hv.y, wv[g][k].y, s[g]);
                s[g] = fma(hv.z, wv[g][k].z, s[g]);
                s[g] = fma(hv.w, wv[g][k].w, s[g]);
            }
        }
        sums[t * DEPTH] = (float4)(s[0], s[1], s[2], s[3]);
    }
}

/* What the inputs add to the gates of a work-item's results, in the rows from `at` on. */
void FN(ask)(float given[EACH][GATES], SRC x, long at, const long row[EACH], const struct sequence_args *a)
{
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int g = 0; g < GATES; g++)
            given[i][g] = x[(at + row[i]) * a->x_n + g * a->size];
}

void FN(body)(ulong group, SRC x, SRC h, SRC c, SRC w, SRC b, DST y, DST d, const struct sequence_args *a,
              local float4 *scratch)
{
    const int part = LANE / DEPTH, u = LANE % DEPTH, size = a->size, unit = min(u, size - 1), steps = a->steps;
    const long row0 = (long)group * TB, towards = a->reverse ? -(long)a->n : a->n;
    long at = a->reverse ? (long)(steps - 1) * a->n : 0; /* the first row of x and y of this step */
    local float *state = (local float *)(scratch + PARTS * TB * DEPTH);
    float4 wv[GATES][QUADS];
    float given[EACH][GATES], coming[EACH][GATES], kept[EACH], bias[GATES];
    long row[EACH]; /* those beyond the last repeat it, and are not stored */

#pragma unroll
    for (int k = 0; k < QUADS; k++)
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            SRC from = w + ((long)(part * QUADS + k) * 4 * GATES + g) * DEPTH + u;
            wv[g][k] = (float4)(from[0], from[GATES * DEPTH], from[2 * GATES * DEPTH], from[3 * GATES * DEPTH]);
        }
#pragma unroll
    for (int g = 0; g < GATES; g++)
        bias[g] = GATES == 3 ? b[g * size + unit] : 0.0f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int t = part + i * PARTS;
        row[i] = min(row0 + t, (long)a->n - 1);
        const float before = h[row[i] * a->h_n + unit];
        kept[i] = GATES == 4 ? c[row[i] * a->c_n + unit] : before;
        if (OWNS(t))
            state[t * DEPTH + u] = u < size ? before : 0.0f;
    }
    if (OWNS(part))
        FN(ask)(given, x + unit, at, row, a);
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int s = 0; s < steps; s++) {
        const bool last = s + 1 == steps;
        if (OWNS(part))
            FN(ask)(coming, x + unit, last ? at : at + towards, row, a);
        FN(multiply)(scratch + part * TB * DEPTH + u, (const local float4 *)state + part * QUADS, wv);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int t = part + i * PARTS;
            if (OWNS(t)) {
                const local float4 *sum = scratch + t * DEPTH + u;
                const float4 v = (sum[0] + sum[TB * DEPTH]) + (sum[2 * TB * DEPTH] + sum[3 * TB * DEPTH]);
                const float gates[4] = {v.x, v.y, v.z, v.w};
                const float result = FN(next)(gates, given[i], bias, &kept[i]);
                if (row0 + t < a->n && u < size) {
                    state[t * DEPTH + u] = result;
                    y[(at + row[i]) * a->y_n + u] = result;
                }
#pragma unroll
                for (int g = 0; g < GATES; g++)
                    given[i][g] = coming[i][g];
            }
        }
        at += towards;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if GATES == 4
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (OWNS(part + i * PARTS) && row0 + part + i * PARTS < a->n && u < size)
            d[row[i] * a->d_n + u] = kept[i];
#endif
}

KERNEL FN(main)(SRC x, ulong x_off, SRC h, ulong h_off, SRC c, ulong c_off, SRC w, ulong w_off, SRC b, ulong b_off,
                DST y, ulong y_off, DST d, ulong d_off, const struct sequence_args a)
{
    local float4 scratch[PARTS * TB * DEPTH + TB * DEPTH / 4];
    FN(body)(GROUP, x + x_off, h + h_off, c + c_off, w + w_off, b + b_off, y + y_off, d + d_off, &a, scratch);
}

/* The weights that one value of the state is multiplied with. */
void FN(pack_body)(ulong group, SRC w, DST packed, const struct sequence_args *a)
{
    const int size = a->size, k = (int)group;
    for (int i = LANE; i < GATES * DEPTH; i += WG) {
        const int g = i / DEPTH, u = i % DEPTH;
        const bool present = u < size && k < size;
        packed[(long)k * GATES * DEPTH + i] = present ? w[(long)(g * size + u) * a->w_n + k] : 0.0f;
    }
}

KERNEL FN(pack)(SRC w, ulong w_off, DST packed, ulong packed_off, const struct sequence_args a)
{
    FN(pack_body)(GROUP, w + w_off, packed + packed_off, &a);
}
