/* depthwise_nhwc_ref.cl: depthwise 2-D convolution of maps with channels last, by its definition.
 *
 *   y[n][oh][ow][c] = act( sum_{r,s} x[n][oh*sh - ph + r*dh][ow*sw - pw + s*dw][c] * w[c][0][r][s] + bias[c]
 *                          + add[n][oh][ow][c] )
 *
 * Layouts: x, y, add NHWC with batch strides; w [C][1][R][S].
 * Index map: a work-item an output, in row-major order of (n, oh, ow, c).
 * Work-group: WG items. Local memory: none.
 * Defines: WG (any), EPI_BIAS, EPI_ADD, EPI_ACT (epilogue.clh). */
#include "common/clcnn.clh"
#include "conv/conv_args.h"
#include "common/epilogue.clh"
#ifndef FN
#define FN(x) depthwise_nhwc_ref_##x
#endif

void FN(body)(ulong group, SRC x, SRC w, SRC bias, SRC add, DST y, const struct conv_args *a)
{
    const long item = (long)a->out[1] * a->out[2] * a->c;
    const long i = (long)group * WG + LANE;
    if (i < item * a->n) {
        const long n = i / item, inner = i - n * item, pixel = inner / a->c;
        const int c = (int)(inner - pixel * a->c), oh = (int)(pixel / a->out[2]),
                  ow = (int)(pixel - (long)oh * a->out[2]);
        SRC map = x + n * a->src_n + c;
        SRC wc = w + c * a->w_k;
        float sum = 0.0f;
        for (int r = 0; r < a->ker[1]; r++) {
            const int ih = oh * a->stride[1] - a->pad[1] + r * a->dil[1];
            for (int s = 0; s < a->ker[2]; s++) {
                const int iw = ow * a->stride[2] - a->pad[2] + s * a->dil[2];
                if (ih >= 0 && ih < a->in[1] && iw >= 0 && iw < a->in[2])
                    sum = fma(map[((long)ih * a->in[2] + iw) * a->c], wc[r * a->ker[2] + s], sum);
            }
        }
        y[n * a->dst_n + inner] = EPILOGUE(sum, bias, c, add, n * a->add_n + inner, a);
    }
}

KERNEL FN(main)(SRC x, ulong x_off, SRC w, ulong w_off, SRC bias, ulong bias_off, SRC add, ulong add_off, DST y,
                ulong y_off, const struct conv_args a)
{
    FN(body)(GROUP, x + x_off, w + w_off, bias + bias_off, add + add_off, y + y_off, &a);
}
