/* cell_ref.cl: a step of a recurrent layer: the state's product with the weights of all gates, and what the gates make
 * of it.
 *
 *   a[n][g][u] = sum_k h[n][k] * w[g * size + u][k]
 *   LSTM (GATES 4): i, o, f = sigmoid(a0 + x0), sigmoid(a1 + x1), sigmoid(a2 + x2); d = f c + i tanh(a3 + x3); y = o
 *   tanh(d)
 *   GRU (GATES 3):  z, r = sigmoid(a0 + b0 + x0), sigmoid(a1 + b1 + x1); m = tanh(r (a2 + b2) + x2); y = m + z (h - m)
 *
 * Layouts: rows of x[n][GATES * size], h, c, y and d lie batch strides apart; w packed by entry pack: [tile of V
 * units][k] [gate][V], zeros past the last unit.
 * Index map: group = tile of V units * ceil(n / TB) + tile of rows. Work-group: WG = 1. Local memory: none.
 * Defines: V 4, 8 or 16; GATES 3 or 4; TB rows of a tile (any). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 8
#endif
#include "common/clcnn.clh"
#include "matmul/gemm_args.h"
#include "common/activation.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) cell_ref_##x
#endif
#include "common/activation_vec.clh"
#ifndef GATES
#define GATES 4
#endif
#ifndef TB
#define TB 1
#endif
#undef AT_ONCE
#define AT_ONCE (TB == 1 ? 2 : 1) /* sums of even and odd k apart, so that one row does not wait for its adder */

/* The first `lanes` elements of a vector. */
FV FN(load)(SRC p, int lanes)
{
    if (lanes >= V)
        return LOADV(p, 0);
    float v[V];
    for (int j = 0; j < V; j++)
        v[j] = j < lanes ? p[j] : 0.0f;
    return LOADV(v, 0);
}

void FN(store)(FV v, DST p, int lanes)
{
    if (lanes >= V) {
        STOREV(v, p, 0);
    } else {
        float each[V];
        KEEPV(v, each, 0);
        for (int j = 0; j < lanes; j++)
            p[j] = each[j];
    }
}

#define UNITS_OF_GATES FV
#define GATE_ACT(act) VECTOR_ACT(act)
#include "matmul/gates.clh"

void FN(body)(ulong group, SRC x, SRC h, SRC c, SRC w, SRC b, DST y, DST d, const struct cell_args *a)
{
    const int size = a->size, down = (a->n + TB - 1) / TB;
    const int m0 = (int)(group % down) * TB, u = (int)(group / down) * V, lanes = size - u;
    SRC wt = w + (long)u * GATES * size;
    SRC hr[TB]; /* rows beyond the last repeat it, and are not stored */
    FV sum[AT_ONCE][GATES][TB];
#pragma unroll
    for (int t = 0; t < TB; t++)
        hr[t] = h + min(m0 + t, a->n - 1) * a->h_n;
#pragma unroll
    for (int s = 0; s < AT_ONCE; s++)
#pragma unroll
        for (int g = 0; g < GATES; g++)
#pragma unroll
            for (int t = 0; t < TB; t++)
                sum[s][g][t] = 0.0f;
    int k = 0;
    for (; k + AT_ONCE <= size; k += AT_ONCE)
#pragma unroll
        for (int s = 0; s < AT_ONCE; s++)
#pragma unroll
            for (int g = 0; g < GATES; g++) {
                const FV wv = LOADV(wt, ((k + s) * GATES + g) * V);
#pragma unroll
                for (int t = 0; t < TB; t++)
                    sum[s][g][t] = fma(wv, (FV)hr[t][k + s], sum[s][g][t]);
            }
    for (; k < size; k++)
#pragma unroll
        for (int g = 0; g < GATES; g++)
#pragma unroll
            for (int t = 0; t < TB; t++)
                sum[0][g][t] = fma(LOADV(wt, (k * GATES + g) * V), (FV)hr[t][k], sum[0][g][t]);

#pragma unroll
    for (int t = 0; t < TB; t++) {
        const long m = m0 + t;
        if (m >= a->n)
            continue;
        FV gate[GATES], given[GATES], bias[GATES];
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            gate[g] = sum[0][g][t];
            if (AT_ONCE > 1)
                gate[g] += sum[AT_ONCE - 1][g][t];
            given[g] = FN(load)(x + m * a->x_n + g * size + u, lanes);
            bias[g] = GATES == 3 ? FN(load)(b + g * size + u, lanes) : (FV)0.0f;
        }
        FV kept = FN(load)(GATES == 4 ? c + m * a->c_n + u : hr[t] + u, lanes);
        FN(store)(FN(next)(gate, given, bias, &kept), y + m * a->y_n + u, lanes);
#if GATES == 4
        FN(store)(kept, d + m * a->d_n + u, lanes);
#endif
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC h, ulong h_off, SRC c, ulong c_off, SRC w, ulong w_off, SRC b, ulong b_off,
                DST y, ulong y_off, DST d, ulong d_off, const struct cell_args a)
{
    FN(body)(GROUP, x + x_off, h + h_off, c + c_off, w + w_off, b + b_off, y + y_off, d + d_off, &a);
}

/* A tile's weights. */
void FN(pack_body)(ulong group, SRC w, DST packed, const struct cell_pack_args *a)
{
    const int size = a->size, u = (int)group * V;
    DST to = packed + (long)u * GATES * size;
    for (int k = 0; k < size; k++)
        for (int g = 0; g < GATES; g++)
            for (int j = 0; j < V; j++)
                to[(k * GATES + g) * V + j] = u + j < size ? w[(g * size + u + j) * a->w_n + k] : 0.0f;
}

KERNEL FN(pack)(SRC w, ulong w_off, DST packed, ulong packed_off, const struct cell_pack_args a)
{
    FN(pack_body)(GROUP, w + w_off, packed + packed_off, &a);
}
