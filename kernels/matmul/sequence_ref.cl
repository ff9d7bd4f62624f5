/* sequence_ref.cl: all steps of a recurrent layer, each as cell_ref.cl has it, by the definition.
 *
 *   h[0] and c[0] are given; for each step s: h[s + 1], c[s + 1] = step(x[t], h[s], c[s]), y[t] = h[s + 1]; t = s, or
 *   steps - 1 - s where the last step comes first; d = the last c
 *
 * Layouts: rows of x[t * n + row][GATES * size], h, c, y and d lie batch strides apart, those of w[GATES * size][size]
 * w_n.
 * Index map: group = row of the batch. Work-group: WG = 1. Local memory: none.
 * Defines: GATES 3 or 4. */
#ifndef WG
#define WG 1
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/activation.clh"
#ifndef FN
#define FN(x) sequence_ref_##x
#endif
#ifndef GATES
#define GATES 4
#endif
#include "matmul/gates.clh"

/* The state after one step: h -> y, and of an LSTM c -> d, which may be the same memory. Rows of all are at this
 * row. */
void FN(step)(SRC x, const global float *h, const global float *c, SRC w, SRC b, DST y, DST d,
              const struct sequence_args *a)
{
    const int size = a->size;
    for (int u = 0; u < size; u++) {
        float sums[GATES], given[GATES], bias[GATES], kept = GATES == 4 ? c[u] : h[u];
        for (int g = 0; g < GATES; g++) {
            sums[g] = 0.0f;
            given[g] = x[g * size + u];
            bias[g] = GATES == 3 ? b[g * size + u] : 0.0f;
        }
        for (int k = 0; k < size; k++)
            for (int g = 0; g < GATES; g++)
                sums[g] = fma(h[k], w[(long)(g * size + u) * a->w_n + k], sums[g]);
        y[u] = FN(next)(sums, given, bias, &kept);
#if GATES == 4
        d[u] = kept;
#endif
    }
}

void FN(body)(ulong group, SRC x, SRC h, SRC c, SRC w, SRC b, DST y, DST d, const struct sequence_args *a)
{
    const long row = (long)group;
    const global float *h_row = h + row * a->h_n, *c_row = c + row * a->c_n;
    for (int s = 0; s < a->steps; s++) {
        const long t = (long)(a->reverse ? a->steps - 1 - s : s) * a->n + row;
        FN(step)(x + t * a->x_n, h_row, c_row, w, b, y + t * a->y_n, d + row * a->d_n, a);
        h_row = y + t * a->y_n;
        c_row = d + row * a->d_n;
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC h, ulong h_off, SRC c, ulong c_off, SRC w, ulong w_off, SRC b, ulong b_off,
                DST y, ulong y_off, DST d, ulong d_off, const struct sequence_args a)
{
    FN(body)(GROUP, x + x_off, h + h_off, c + c_off, w + w_off, b + b_off, y + y_off, d + d_off, &a);
}
