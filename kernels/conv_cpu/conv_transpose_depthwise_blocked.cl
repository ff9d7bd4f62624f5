/* conv_transpose_depthwise_blocked.cl: 2-D transposed convolution of one channel and one filter a group, on channel
 * blocks, for CPU devices: vectors of channels, tiles of pixels in registers.
 *
 *   y[n][c][oh][ow] = act( sum_{r,s} x[n][c][ih][iw] * w[c][r][s] + bias[c] + add )
 *
 * over the taps for which oh + ph - r*dh = ih*sh and ow + pw - s*dw = iw*sw with (ih, iw) inside of the image. The
 * pixels of a phase (conv_phases.clh), of which a row of the output has every sw-th, meet the same taps.
 * Layouts: x, y, add [ceil(C/B)][H][W][B] with batch strides; w packed [ceil(C/B)][R][S][B]. Lanes of y past C are
 * written as zeros.
 * Index map: group = (n * blocks + block of channels) * parts + part; a part is `rows` rows of the output.
 * Work-group: WG = 1. Local memory: none.
 * Defines: V channels of a block, 16 or 8; T pixels of a tile; EPI_ACT act_* (blocked_store.clh). */
#ifndef WG
#define WG 1
#endif
#ifndef V
#define V 16
#endif
#include "common/clcnn.clh"
#include "conv/conv_phases_args.h"
#include "common/epilogue.clh"
#include "common/vec.clh"
#ifndef FN
#define FN(x) conv_transpose_depthwise_blocked_##x
#endif
#include "common/activation_vec.clh"
#include "common/blocked_store.clh"
#include "conv/conv_phases.clh"
#ifndef T
#define T 8
#endif

/* Sums of pixels `col` .. col + T - 1 of a phase, in its row `row`. */
void FN(tile)(FV acc[T], SRC x, SRC w, int row, int col, const struct FN(phase) *rows, const struct FN(phase) *cols,
              const struct conv_phases *f)
{
#pragma unroll
    for (int t = 0; t < T; t++)
        acc[t] = 0.0f;
    for (int j = 0; j < rows->taps; j++) {
        const int ih = row + rows->from - j * f->step[0];
        if (ih < 0 || ih >= f->in[0])
            continue;
        for (int i = 0; i < cols->taps; i++) {
            const int iw = col + cols->from - i * f->step[1];
            const FV tap = LOADV(w, ((rows->first + j * f->every[0]) * f->ker[1] + cols->first + i * f->every[1]) * V);
            SRC at = x + ((long)ih * f->in[1] + iw) * V;
            if (iw >= 0 && iw + T <= f->in[1]) {
#pragma unroll
                for (int t = 0; t < T; t++)
                    acc[t] = fma(LOADV(at, t * V), tap, acc[t]);
            } else {
#pragma unroll
                for (int t = 0; t < T; t++)
                    if (iw + t >= 0 && iw + t < f->in[1])
                        acc[t] = fma(LOADV(at, t * V), tap, acc[t]);
            }
        }
    }
}

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_transpose_depthwise_args *a)
{
    const struct conv_phases *f = &a->phases;
    const int blocks = (a->c + V - 1) / V, parts = (f->out[0] + a->rows - 1) / a->rows;
    const int first = (int)(group % parts) * a->rows, past = min(first + a->rows, f->out[0]);
    const int block = (int)(group / parts % blocks);
    const long n = (long)(group / parts / blocks);
    SRC xb = x + n * a->src_n + (long)block * f->in[0] * f->in[1] * V;
    SRC wb = w + (long)block * f->ker[0] * f->ker[1] * V;
    SRC an = add + n * a->add_n;
    DST yn = y + n * a->dst_n;
    const struct blocked_epilogue epi = a->epi; /* a copy: stores of y cannot change it */
    const FV b = FN(bias)(bias, block * V, a->c, &epi);
    for (int oh = first; oh < past; oh++) {
        const struct FN(phase) rows = FN(phase_of)(oh % f->stride[0], 0, f);
        for (int q = 0; q < f->count[1]; q++) {
            const struct FN(phase) cols = FN(phase_of)(q, 1, f);
            for (int col = 0; col < cols.outputs; col += T) {
                FV acc[T];
                FN(tile)(acc, xb, wb, oh / f->stride[0], col, &rows, &cols, f);
#pragma unroll
                for (int t = 0; t < T; t++)
                    if (col + t < cols.outputs) {
                        const int ow = q + (col + t) * f->stride[1];
                        const long i = (((long)block * f->out[0] + oh) * f->out[1] + ow) * V;
                        FN(store)(acc[t], b, an, yn, i, a->c - block * V, &epi);
                    }
            }
        }
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_transpose_depthwise_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
