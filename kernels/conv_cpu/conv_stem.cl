/* conv_stem.cl: 2-D convolution from a row-major map of few channels to one with channels in blocks, for CPU devices.
 *
 *   y[n][k][oh][ow] = act( sum_{c,r,s} x[n][c][oh*sh - ph + r*dh][ow*sw - pw + s*dw] * w[k][c][r][s] + bias[k] + add )
 *
 * Layouts: x [C][H][W], y and add [ceil(K/V)][P][Q][V], all with batch strides; w packed by conv_pack.cl:
 * [blocks of KV*V filters][C][R][S][KV*V], zeros for missing filters. Lanes of y past K are written as zeros.
 * A work-item computes a segment of an output row: it copies the input rows under it, zeros outside the image, to
 * private memory, and then computes tiles of T pixels by KV vectors of V filters, accumulators in registers, for all
 * filters (conv_stem.clh).
 * Index map: group = (n * P + oh) * segments + segment; a segment is per_item tiles.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T, KV, SW, AREA (conv_stem.clh); EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/stem_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_stem_##x
#endif
#include "common/columns.clh"
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "conv_cpu/conv_stem.clh"

/* Where the first `count` pixels of a tile go: filters k on, the element of the first one in every block. */
struct FN(target) {
    const global float *bias, *add;
    global float *y;
    int k, count;
    long at;
};

void FN(tile)(const float *area, int width, SRC w, const struct FN(target) *to, const struct conv_stem_args *a)
{
    FV acc[T][KV];
    FN(sums)(acc, area, width, w, a);
    const struct blocked_epilogue epi = a->epi; /* copies: stores of y cannot change them */
    const global float *add = to->add;
    global float *y = to->y;
    const int count = to->count;
#pragma unroll
    for (int v = 0; v < KV; v++) {
        const int k = to->k + v * V;
        if (k < a->k) {
            const long i = to->at + k / V * ((long)a->out[0] * a->out[1] * V);
            const int lanes = a->k - k;
            const FV b = FN(bias)(to->bias, k, a->k, &epi);
#pragma unroll
            for (int t = 0; t < T; t++)
                if (t < count)
                    FN(store)(acc[t][v], b, add, y, i + t * V, lanes, &epi);
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_stem_args *a)
{
    const int ow = (int)(group % a->segments) * a->per_item * T;
    const ulong rest = group / a->segments;
    const int oh = (int)(rest % a->out[0]), n = (int)(rest / a->out[0]);
    const int tiles = min(a->per_item, (a->out[1] - ow + T - 1) / T);
    const int width = FN(width)(tiles, a);

    float area[AREA] __attribute__((aligned(64)));
    FN(rows)(area, x + n * a->src_n, oh, ow * SW - a->pad[1], width, a);
    struct FN(target) to = {bias, add + n * a->add_n, y + n * a->dst_n, 0, 0, 0};
    for (int kk = 0; kk < a->k; kk += KV * V, w += a->c * a->ker[0] * a->ker[1] * (KV * V))
        for (int tile = 0; tile < tiles; tile++) {
            const int first = ow + tile * T;
            to.k = kk;
            to.count = min(T, a->out[1] - first);
            to.at = ((long)oh * a->out[1] + first) * V;
            FN(tile)(area + tile * T * SW, width, w, &to, a);
        }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_stem_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
