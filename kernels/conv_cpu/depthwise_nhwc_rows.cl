/* depthwise_nhwc_rows.cl: depthwise 2-D convolution of maps with channels last, DT pixels at a time, for CPU devices.
 *
 *   y[n][oh][ow][c] = act( sum_{r,s} x[n][oh*sh - ph + r*dh][ow*sw - pw + s*dw][c] * w[c][0][r][s] + bias[c] + add )
 *
 * All channels of some pixels of a row come one vector after the other, as they lie in memory.
 * Layouts: x, y, add NHWC with batch strides; w packed by conv_pack.cl: [C/V][R][S][V].
 * Index map: group = n * parts + part; a work-item computes `rows` rows of the result.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V 16 or 8 (divides C); DT, KH, KW, SW (depthwise_tile.clh); EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv_cpu/conv_cpu_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) depthwise_nhwc_rows_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#define DEPTHWISE_APART(g) (g)->apart
#include "conv_cpu/depthwise_tile.clh"

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct depthwise_args *a)
{
    const int parts = (a->out[0] + a->rows - 1) / a->rows, first = (int)(group % parts) * a->rows,
              past = min(first + a->rows, a->out[0]);
    const long n = (long)(group / parts);
    const struct FN(window) g = {{a->in[0], a->in[1]},   {a->ker[0], a->ker[1]}, {a->stride[0], a->stride[1]},
                                 {a->pad[0], a->pad[1]}, {a->dil[0], a->dil[1]}, a->c};
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    SRC xn = x + n * a->src_n;
    SRC an = add + n * a->add_n;
    DST yn = y + n * a->dst_n;
    for (int oh = first; oh < past; oh++)
        for (int ow = 0; ow < a->out[1]; ow += DT)
            for (int k = 0; k < a->c; k += V) {
                FV acc[DT];
                FN(depthwise)(acc, xn + k, w + (long)k * a->ker[0] * a->ker[1], oh, ow, &g);
                const FV b = FN(bias)(bias, k, a->c, &epi);
                const long i = ((long)oh * a->out[1] + ow) * a->c + k;
#pragma unroll
                for (int t = 0; t < DT; t++)
                    if (ow + t < a->out[1])
                        FN(store)(acc[t], b, an, yn, i + (long)t * a->c, V, &epi);
            }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct depthwise_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
